// Package tolerationseconds is the admission plugin DefaultTolerationSeconds:
// a pod that says nothing about nodes that are not ready or unreachable stays
// on such a node for five minutes.
package tolerationseconds
