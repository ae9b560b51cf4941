// Package snapshot owns the scheduler's picture of the cluster: nodes with the pods that
// are bound, assumed or nominated there, the objects that plugins read, and what of it the
// plugins were told.
//
// # How data passes through
//
// The cycle sets nodes, pods and objects (snapshot.go, nominees.go). Each change is kept
// twice: as an operation that waits for the plugins (Pending), and in the change log
// (changelog.go), from which each class of the result cache learns which nodes to ask
// about again. Versions of kinds of objects say which plugins have to be asked again.
//
// A Replica (replica.go) is the copy of what the plugins were told. It makes operations
// the next delta, so that a plugin which is new or was restarted is fed from it. Its
// generation names its content exactly.
//
// Follow (follow.go) keeps a second snapshot by the operations of deltas. It knows names
// and what changed, and no pods.
//
// # Promises
//
//   - An index names one node at a time, and is used again when that is gone.
//   - Positions in the change log only grow. Who reads from before its first entry is
//     told so and starts afresh.
//   - A node outlives its object while pods are bound to its name.
//
// A Snapshot belongs to one goroutine. A Replica is safe for concurrent use. The package
// starts no goroutine and must not import the packages beside it but convert.
package snapshot
