// Package nodeaffinity is the predicate NodeAffinity: a node fits when the pod's
// nodeSelector and required node affinity select it, and so does the affinity that
// the configuration adds to every pod's.
package nodeaffinity
