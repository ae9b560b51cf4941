// Package resultcache owns the answers of a policy's plugins about a class of pods:
// verdicts and raw scores by node, totals, and which of them still hold.
//
// Update brings a Class up to date before each decision. It asks the plugins only about
// answers that may have changed. A decision equals the one that results from asking every
// plugin about every node, each alone; FuzzCacheIsInvisible compares them.
//
// # How data passes through
//
// Update reads a View: a snapshot with its change log and the versions of its objects.
//
//  1. A class of another policy, or of another generation of it, starts empty (class.go).
//  2. Answers that ended with time become void (expiry.go).
//  3. Plugins say which pods they ignore (unaffected.go), whether they skip the class
//     (skip.go), and which of their answers changed (changednodes.go).
//  4. The class forgets all answers that the changes may have affected (invalidate.go).
//  5. Pre-filter plugins narrow the nodes down (prefilter.go).
//  6. The class asks predicates about nodes without a verdict (filter.go). Where pods are
//     nominated to a node, it also asks with these pods on it (whatif.go).
//  7. The class asks priorities about the nodes that fit (score.go). Plugins of one bundle
//     are asked together (batchquestions.go).
//
// Choose normalises the scores, adds them up (totals.go) and finds the best total in
// blocks of nodes (totalindex.go). Why describes the reasons of the nodes that failed
// (message.go). A DecisionSnapshot keeps the data behind a decision (decisionsnapshot.go).
//
// A class also answers hypothetical questions. Check asks the predicates about nodes in the
// present state of the plugins' replicas. Predict guesses the total of a node after it gets
// one more pod, and Observe learns the real total (predict.go).
//
// # Promises
//
//   - After an error a class is void, and the next update asks for everything again.
//   - A DecisionSnapshot never changes, so any goroutine may read it.
//   - During one update a plugin gets each question once, unless it did not answer.
//
// A Class and its View belong to the goroutine that decides. The package starts no
// goroutine. It must not import the queue, the cycle or package explain: those import it.
package resultcache
