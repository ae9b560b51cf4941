// Package explain owns what users are told about decisions: why a pod is where it is, or
// nowhere, and how a candidate of a plugin would have decided.
//
// # How data passes through
//
// The cycle keeps each Decision in a Record, with the snapshot of what it was made on
// (package resultcache). An Explanation is told from that (Decision.Explanation, Tell), or
// made anew by an Evaluation, which asks every predicate about every node between two
// decisions. Both word why the winner won, or what would have to change for a pod that
// fits nowhere (why.go).
//
// A Comparison decides each pod again by two policies: a mirror of the one in force, and
// that with a candidate in it. The cycle offers it deltas and decisions and never waits.
// The comparison applies the deltas in their order to a replica of its own, from which
// both sides are fed, so that both are asked at the very generation of the decision: a
// difference is one of versions, not of time. Its classes ask about the same nodes as the
// cycle's. A decision that is dropped is counted; a delta that is dropped shows as a gap,
// after which the comparison takes the source's whole replica and goes on from there.
//
// # Promises
//
//   - A Record holds one decision per pod, and at most as many as it was made for.
//   - An explanation of a decision says what the decision was made on, even when nothing
//     of it holds any more.
//   - A disagreement tells of at most eight nodes, a comparison of a bounded number of
//     disagreements.
//
// A Record is safe for concurrent use; so are the Offer methods, Begin, End, Replica and
// Report of a Comparison. Run is its only goroutine, which the caller starts and ends. An
// Evaluation belongs to the goroutine that decides. The package must not import the cycle:
// that hands over what it decided.
package explain
