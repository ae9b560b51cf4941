// Package volumebinding is the predicate VolumeBinding, and what the other plugins
// of its name share with it: which claims of a pod are bound, and how the others
// can be met on a node.
//
// A claim that is bound keeps the pod where its volume is within reach. One whose
// class binds at once (Immediate) has to be bound before. One whose class waits for
// its first consumer takes the smallest free volume that suits it and the node, or
// is provisioned if the class has a provisioner, the node is of its allowed
// topologies and, where the CSIDriver says how much room there is, there is some.
//
// How data passes through: ClaimsOf once a class, Find once a node, both over the
// replica alone. VolumeBindingReserve asks Find again for the node that was chosen
// and has the host assume the outcome in the replica, so that the next decision
// sees it; VolumeBindingPreBind writes it. Those two are the bundle
// plugins/volumebinding, a process, because a module cannot write to the API; this
// package is in the module of plugins/modern and in that process.
//
// The package must import sdk, plugins/predicates/claims and noderesources only, and holds no
// state, so that both find the same.
//
// Caveat: kube-scheduler takes any of the smallest volumes of one size; this takes
// the first by name.
package volumebinding
