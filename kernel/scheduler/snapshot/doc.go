// Package snapshot owns the scheduler's picture of the cluster: nodes with their bound,
// assumed or nominated pods, and the objects that plugins read. It also owns the record of
// what the plugins received.
//
// # How data passes through
//
// The cycle sets nodes, pods and objects (snapshot.go, nominees.go). The snapshot keeps each
// change twice. One is an operation that waits for the plugins (Pending). The other is an
// entry of the change log (changelog.go), from which each class of the result cache learns
// which nodes to ask about again. Each kind of object has a version; it says which plugins
// the class has to ask again.
//
// A Replica (replica.go) is the copy of what the plugins received. It turns operations into
// the next delta, and feeds plugins that are new or were restarted. Its generation
// identifies its content exactly.
//
// Follow (follow.go) builds a second snapshot from the operations of deltas. It knows names
// and changes, but no pods.
//
// # Promises
//
//   - An index names one node at a time. After the node is gone, the index is used again.
//   - Positions in the change log only grow. A reader from before its first entry gets an
//     error result and starts again.
//   - A node outlives its object while pods are bound to its name.
//
// A Snapshot belongs to one goroutine. A Replica is safe for concurrent use. The package
// starts no goroutine. Of the packages beside it, it may import only convert.
package snapshot
