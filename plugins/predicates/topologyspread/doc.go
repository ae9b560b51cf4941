// Package topologyspread counts pods by domain for the topology spread constraints
// of a pod (KEP-895), as kube-scheduler 1.36 does: which nodes count, which pods do,
// the constraints that stand for a pod that names none. PodTopologySpread takes the
// hard ones, PodTopologySpreadScore the soft.
//
// A Spread is the state of a class. It is made of the whole cluster once and then
// follows changes, each in a few look-ups.
package topologyspread
