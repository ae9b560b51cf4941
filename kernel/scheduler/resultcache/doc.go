// Package resultcache owns what the plugins of a policy answered about a class of pods:
// verdicts and raw scores by node, totals, and which of them still hold.
//
// A Class is brought up to date before each decision (Update). It asks the plugins about
// what may have changed since, and nothing else. A decision is the one that asking every
// plugin about every node would give, each alone; FuzzCacheIsInvisible compares them.
//
// # How data passes through
//
// Update reads a View, which is a snapshot with its change log and the versions of its
// objects:
//
//  1. A class of another policy, or of another generation of it, starts empty (class.go).
//  2. Answers that ended with time are void (expiry.go).
//  3. Plugins say which pods do not concern them (unaffected.go), whether they have
//     anything to say (skip.go), and which of their answers changed (changednodes.go).
//  4. What the changes since may have made others is forgotten (invalidate.go).
//  5. Pre-filter plugins narrow the nodes down (prefilter.go).
//  6. Predicates are asked about the nodes of which nothing is known (filter.go). Where
//     pods are nominated to a node, also with them on it (whatif.go).
//  7. Priorities are asked about the nodes that fit (score.go). Plugins that live
//     together are asked together (batchquestions.go).
//
// Choose normalises the scores, adds them up (totals.go) and finds the best total in
// blocks of nodes (totalindex.go). Why words on what the nodes failed (message.go).
// A DecisionSnapshot keeps what a decision was made on (decisionsnapshot.go).
//
// Beside that a class answers questions about what is not so: Check asks the predicates
// about nodes as the plugins' replicas have them now; Predict guesses what becomes of a
// node's total when it gets a pod more, and Observe learns what did (predict.go).
//
// # Promises
//
//   - After an error a class is void, and the next update asks afresh.
//   - A DecisionSnapshot is never changed, so that any goroutine may read it.
//   - Nothing is asked of a plugin twice for one update, unless it did not answer.
//
// A Class and its View belong to the goroutine that decides. The package starts no
// goroutine. It must not import the queue, the cycle or what explains decisions: those
// import it.
package resultcache
