// Package explain owns explanations of decisions for users: why a pod is on its node, why
// it fits nowhere, and how a candidate of a plugin would have decided.
//
// # How data passes through
//
// The cycle stores each Decision in a Record, with the snapshot of the data behind it
// (package resultcache). An Explanation comes from that data (Decision.Explanation, Tell).
// Or an Evaluation makes it anew: between two decisions it asks every predicate about every
// node. Both explain why the winner won, or what would have to change for a pod that fits
// nowhere (why.go).
//
// A Comparison decides each pod again with two policies: a mirror of the one in force, and
// the same policy with a candidate in it. The cycle offers it deltas and decisions and
// never waits. The comparison applies the deltas in order to its own replica, which feeds
// both sides. So both decide at exactly the generation of the decision, and a difference
// comes from the versions, not from the time. Its classes ask about the same nodes as the
// cycle's. The comparison counts decisions that it drops. A dropped delta shows as a gap;
// then the comparison takes the source's whole replica and continues from there.
//
// # Promises
//
//   - A Record holds one decision per pod, and at most as many as its limit.
//   - An explanation of a decision describes the data behind the decision, even after all
//     of it has changed.
//   - A disagreement lists at most eight nodes. A comparison lists a bounded number of
//     disagreements.
//
// A Record is safe for concurrent use; so are the Offer methods, Begin, End, Replica and
// Report of a Comparison. Run is its only goroutine, which the caller starts and ends. An
// Evaluation belongs to the goroutine that decides. The package must not import the cycle,
// which passes its decisions to it.
package explain
