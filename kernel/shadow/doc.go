// Package shadow owns candidates: versions of bundles that run beside those in
// force (spec.shadow of a Plugin), on the decisions that the scheduler makes,
// and are never used in one.
//
// # How data passes through
//
// Plugin objects say which bundle has a candidate. For each, a Manager runs two
// plugin hosts beside the kernel's: the mirror, which is the policy in force once more,
// and the candidate, which is that policy with the one bundle replaced. A
// explain.Comparison decides every pod again by both and keeps where they differ;
// what follows from that for the placement is the whole policy's word, not one
// plugin's.
//
// The mirror is what makes the comparison fair and the decision cheap. The cycle
// hands over no answers, only which class it decided at which generation: a
// few words a decision, dropped when there is no room. The comparison then asks
// both sides about the same class and the same nodes at that same generation, so that
// a disagreement is never an artefact of time. The price is memory: two more
// instances of each bundle of the policy, as long as a shadow runs.
//
// # Promises
//
//   - A candidate never slows or changes a decision, whatever it does: it has no
//     lock, queue or guest in common with the cycle. A candidate that fails, hangs or cannot
//     be started is counted and told in status.shadow.
//   - When the policy in force changes, a shadow starts over with it, and its counts.
//   - At most MaxShadows run; others say that there is no room.
//
// It must not import kernel/api or the store; it knows the API through a ListerWatcher.
package shadow
