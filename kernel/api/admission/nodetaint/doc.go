// Package nodetaint is the admission plugin TaintNodesByCondition: a new node
// is tainted not-ready, so that nothing is placed on it before the node
// lifecycle controller has seen it ready.
package nodetaint
