// Package scheduler owns the way of a pod from pending to bound: the queue, the
// scheduling cycle, preemption and binding. Two packages below hold the data of decisions:
// snapshot has the state of the cluster, and resultcache the answers of plugins. The
// package makes no decision of its own: every verdict and every score comes from the
// predicates and priorities of a Policy, which the plugin host serves.
//
// # How data passes through
//
//	reflectors ──▶ inbox ──▶ cycle ──▶ binding workers ──▶ API
//	                         │   ▲           │
//	       deltas, questions ▼   └─ results ─┘
//	                      policies
//
// Reflectors feed one inbox with the objects of the API. One goroutine, the cycle, owns all
// state. It moves the inbox into the snapshot and the queue, and sends the changes as one
// Delta to the policies. Then it takes the next pod, asks the plugins for answers that the
// cache lacks, picks a node and assumes the pod there. A bounded number of workers makes the
// bindings and returns the results to the cycle. If a binding failed, the cycle forgets the
// assumed pod. Only the inbox, the replica and the record of decisions have locks.
//
// Questions about decisions (Why) run in the cycle too, between two decisions, so that they
// see one state. They delay the next decision as long as a decision of a new class. The
// record keeps the data behind a decision (package resultcache): two bytes per node, shared
// by decisions between which no node's state changed, and the scores of the best nodes.
// Simulate runs the same queue and cycle on a picture of a cluster. Shadows follow the cycle:
// it offers them each delta and each decision, without waiting (followers.go, package explain).
//
// While a plugin or an extender does not answer, another goroutine owns the state and
// decides about pods of other profiles (yield.go, package handover). When the late answer
// comes, the cycle drops the waiting decision. Late answers about a pod that already has its
// node still count. Each question belongs to a unit of work that knows how to undo itself.
//
// Answers may end with time. Then a class asks again, and the scheduler tries again the pods
// that these answers refused.
//
// # The points beside predicates and priorities
//
// A Policy that implements contractv1.Cycler also runs plugins at the other points of the
// cycle. A Policy that does not, or has no plugin there, pays nothing (package framework).
// New pods wait at the doorstep, in batches, until pre-enqueue plugins admit them and the
// queue-sort plugin has given them a key (enter.go). Pre-filter plugins narrow the nodes of
// a class down. Post-filter plugins name victims for a pod that fits nowhere
// (postfilter.go). Reserve and permit plugins run after the decision, in one crossing per
// bundle. A pod that has to wait stays assumed, and the plugins review it four times per
// second (placement.go). Pre-bind, bind and post-bind plugins run on one goroutine per pod,
// at most BindWorkers per profile (binding.go). If a pod waits for a permit, or pre-bind
// plugins have work for it, its status names its node before the binding. Other pods get no
// such write (expectation.go). When an assumed pod gives up its node, the cycle makes its
// Unreserve calls in reverse order before the next question.
//
// # Extenders
//
// External servers (Extender, extend.go) run after the predicates and the priorities, for
// each pod that they are interested in. The pod's profile waits for them. The scheduler does
// not cache their answers. It normalises scores over the nodes that they accepted. They can
// replace bind plugins, and take part in evictions.
//
// # The queue
//
// Pods wait in four places, like those of kube-scheduler 1.36:
//
//   - The active queue is ordered by priority and the time of the last entry.
//   - The back-off queue holds pods that were refused (backoff.go). If nothing is active, the
//     cycle also takes pods from here.
//   - A second back-off queue holds pods that met an error. They always wait for their time.
//   - The pool holds pods that wait for an event, or that pre-enqueue plugins refused.
//
// The plugins that refused a pod (framework.Failure) determine what can help it: plugins
// declare the events, and may answer about each (hints.go). The queue notes events
// (events.go), equal ones once, and processes them in batches. It asks a plugin once for all
// pods of the pool that are alike. This takes at most a small part of the cycle, for any
// number of pods. A pod misses no event during its decision: events that arrive while it
// waits on its node for a permit count when it is refused.
//
// A pod's own change brings it back if one of those plugins declared it; the queue does not
// ask the plugin. While the cluster has no node, pods wait for one; kube-scheduler tries
// them again and again.
//
// # Nominated nodes and preemption
//
// A nominated pod has reserved room on its node: another pod of its priority or a lower one
// must fit beside it too (nomination.go, hypothetical.go). A post-filter plugin either names
// victims, or leaves the choice to the scheduler and only proposes nodes and pods. Then the
// scheduler removes these pods from the plugins' replicas by ordinary deltas and asks all
// predicates. It spares one pod after the other, and restores everything (dryrun.go). It
// keeps the result for a class and a node until the node changes. Where predicates look
// beyond a node, the scheduler tries only the chosen node, and all nodes only if that fails.
// Victims are evicted outside the cycle (preempt.go); the pod waits until they have left. A
// victim that is not bound yet, because it waits for a permit or for pre-bind plugins
// (prebinding.go), gives up its node instead, and is tried again.
//
// # Promises
//
//   - Reserve is followed by Unreserve, of all reserve plugins, unless the pod is
//     seen bound to the node.
//   - A pod is assumed at most once at a time. Its binding has its UID as a
//     precondition, so it is not bound twice.
//   - Deltas carry generations that grow by exactly one. Replica returns the state after
//     the last delta. So a plugin that was fed with generation G continues with G+1, and a
//     gap means that it needs the whole replica again.
//   - The cache is invisible: a decision equals the one that results from asking every
//     plugin about every node, each alone (a test compares them). Plugins of one process
//     are asked together.
//   - While the host feeds new plugins, the previous policy decides. At the start, pods
//     wait for the first policy.
//   - Ties on the top total are broken at random, repeatably by seed (SCH-18).
//   - A pod that fits nowhere comes back after an event that can help it, and after five
//     minutes in any case. The plugins that refused it decide what can help. Back-off doubles
//     from 1 s to 10 s.
//   - A pod evicts only pods with a lower priority, on the node that it is nominated to.
//   - A predicate that fails closes: no node is chosen without its verdict, unless its manifest
//     says ignore. A priority that fails counts 0 and is logged; it may not delay pods.
//   - Each binding, attempt and victim gets an event Scheduled, FailedScheduling or
//     Preempted, as in kube-scheduler. PodScheduled conditions are written when their
//     content changes.
//
// # Caveats
//
// A pod with a deletion timestamp is not scheduled. Plugins do not see volumes named
// kube-api-access-*: their names are random, and would make a separate class of each pod.
// Plugins receive StartTimeUnix of pods only when one is about to choose victims.
// Pre-enqueue does not report to users, as upstream. If a queue-sort plugin fails, the
// priority decides the order. Trials make one assumption about predicates over the cluster.
// If a pod passes without all candidates for eviction, and without only the necessary ones,
// it also passes with every set in between.
//
// The package must not import plugins, kernel/plugin, kernel/api or
// kernel/store: it knows the API through ListerWatchers and functions.
package scheduler
