// Package scheduler owns the way of a pod from pending to bound: the queue, the
// scheduling cycle, preemption and binding. What it decides on is below it: the picture
// of the cluster (package snapshot), and what plugins answered (package resultcache). It
// decides nothing by itself: every verdict and every score comes from the
// predicates and priorities of a Policy, which the plugin host serves.
//
// # How data passes through
//
// Reflectors feed one inbox with the objects of the API. One goroutine, the
// cycle, owns all state: it empties the inbox into the snapshot and the queue,
// hands the changes as one Delta to the policies, takes the next pod, asks the
// plugins what the cache cannot answer, picks a node, assumes the pod there
// and passes the binding on to a bounded number of workers. Their outcome comes
// back to the cycle, which forgets the assumed pod when the binding failed.
// Nothing but the inbox, the replica and the record of decisions is locked.
//
// Questions about decisions (Why) run in the cycle too, between two decisions:
// they see one state, and hold up the next decision as long as one of a class that is new.
// The record keeps what a decision was made on (package resultcache): two bytes a node, shared by
// decisions between which no node's state changed, and the scores of the best
// nodes. Simulate runs the same queue and cycle on a picture of a cluster.
//
// While a plugin or an extender does not answer, another goroutine owns that state
// and decides about pods of other profiles (yield.go, package handover). A decision
// that waits is dropped when the answer comes; what is asked about a pod that has its
// node counts. Each question is part of a work that says what leaving it takes back.
//
// Answers may end with time: a class asks again then, and the pods that
// were refused by them are tried again.
//
// # The points beside predicates and priorities
//
// A Policy that is a contractv1.Cycler has plugins at other points of the cycle;
// one that is none, or has none there, costs nothing (package framework). New pods
// stand at the doorstep until pre-enqueue plugins let them in and the queue-sort
// plugin gave them a key, in batches (enter.go). Pre-filter plugins narrow the
// nodes of a class down, post-filter plugins name victims for a
// pod that fits nowhere (postfilter.go). Reserve and permit plugins are asked
// behind the decision, in one crossing a bundle; a pod that is to wait stays
// assumed and is asked about four times a second (placement.go). Pre-bind, bind
// and post-bind plugins run on a goroutine a pod, at most BindWorkers at once a profile
// (binding.go). A pod that waits for a permit, or for which pre-bind plugins have work,
// names its node in its status before; no other pod is written for that
// (expectation.go). Whenever an assumed pod gives up its node, its Unreserve calls
// are made in reverse order before the next question.
//
// # Extenders
//
// Servers outside (Extender, extend.go) are asked behind the predicates and the
// priorities about each pod that they are interested in. The pod's profile waits
// for them. What they answer is not kept; scores are normalised over the nodes that
// they left. They bind in the place of bind plugins, and have a say in evictions.
//
// # The queue
//
// Pods wait in four places, as kube-scheduler 1.36 has them: the active queue, by
// priority and the time of their last entry; the back-off queue, for pods that were
// refused (backoff.go), from which they are also taken when nothing is active, and
// beside it one for pods that met an error, which wait for their time whatever
// comes; and the pool of those that wait for an event, or that pre-enqueue plugins
// turned away. Who refused a pod (framework.Failure) says what can help it: plugins
// declare the events, and can be asked about each (hints.go). What happens is noted
// (events.go), equal events once, and looked at in batches; a plugin is asked once
// for all pods of the pool that are alike. Looking takes a small part of the cycle
// at most, however many pods there are. A pod that is decided about misses nothing:
// events that come while it waits on its node for a permit count when it is refused.
//
// A pod's own change brings it back if one of those plugins declared it, without
// being asked. While there is no node pods wait for one; kube-scheduler tries them
// again and again.
//
// # Nominated nodes and preemption
//
// A pod that is nominated to a node has its room there: whoever has its priority or
// a lower one must fit beside it too (nomination.go, hypothetical.go). A post-filter
// plugin either names victims, or has the scheduler find out who has to go: it
// proposes nodes and pods, the scheduler takes them off the plugins' replicas by
// deltas like any other, asks all predicates, spares one after the other, and puts
// everything back (dryrun.go). What it finds out for a class and a node is kept as
// long as the node is not touched. Where predicates look beyond a node, the node
// that was chosen is tried alone, and all of them only if that fails. Victims are
// evicted beside the cycle (preempt.go); the pod waits until they were seen to
// leave. One that is not bound yet, as it waits for a permit or for pre-bind plugins
// (prebinding.go), gives up its node instead and is tried again.
//
// # Shadows
//
// The cycle offers each delta and each decision to the comparisons that follow it
// (followers.go; package explain), without waiting.
//
// # Promises
//
//   - Reserve is followed by Unreserve, of all reserve plugins, unless the pod is
//     seen bound to the node.
//   - A pod is assumed at most once at a time and carries its UID as a
//     precondition of the binding, so it is not bound twice.
//   - Deltas carry generations that grow by exactly one. Replica answers the
//     state after the delta that was handed out last, so a plugin that was fed
//     with generation G goes on with G+1, and a gap means: feed me again.
//   - The cache cannot be seen: a decision is the one that asking every plugin
//     about every node would give, each alone (a test compares them). Plugins
//     that live together in a process are asked together.
//   - While the host feeds plugins that are new, the policy before decides on;
//     at the start, pods wait for the first.
//   - Ties on the top total are broken at random, repeatably by seed (SCH-18).
//   - A pod that fits nowhere comes back when something happened that those who
//     refused it say can help it, and after five minutes anyway. Back-off doubles
//     from 1 s to 10 s.
//   - A pod evicts others only with a lower priority, on the node that it is
//     nominated to.
//   - A predicate that fails closes: no node is chosen without its verdict,
//     unless its manifest says ignore. A priority that fails counts 0 and is
//     logged: it may not hold pods up.
//   - Scheduled, FailedScheduling and Preempted events are told of each binding, each
//     attempt and each victim, as kube-scheduler does; PodScheduled conditions are written
//     when they say something new.
//
// # Caveats
//
// A pod with a deletion timestamp is not scheduled. Volumes named kube-api-access-*
// are left out of what plugins see: their names are random, and would make a class
// of each pod. StartTimeUnix of pods is told to plugins when one is about to choose
// victims, not before. Pre-enqueue does not tell users anything, as upstream. A
// queue-sort plugin that fails leaves the order to the priority. Trials take it for
// granted that a predicate over the cluster which lets the pod pass without all that
// may go, and without those that have to, does so in between.
//
// The package must not import plugins, kernel/plugin, kernel/api or
// kernel/store: it knows the API through ListerWatchers and functions.
package scheduler
