// Package statefulset keeps the pods of each StatefulSet: named by ordinals,
// with stable names in DNS and claims of their own, made, rolled and ended in
// order unless the set's policy is Parallel.
//
// Pods, sets, claims and revisions come from shared informers; their events
// enqueue the set. A sync lists the revisions (package revisions), takes and
// releases pods (package ownership), does what the order allows next, and writes
// the status. Because caches lag behind writes, the versions of what was written
// are remembered, and a set is not synced before the caches have them
// (package consistency).
//
// The pod of a revision is built from the set of now with that revision's pod
// template. Nothing else of a revision is used: who may write revisions can
// thus not name another namespace, set or claim.
//
// It differs from upstream in this: a pod whose ordinal is not written as the
// controller writes it (web-01) is no member; a sync makes at most 500 pods; the
// end of a claim enqueues its set; a pod is deleted only as the object that was
// seen. maxUnavailable is not served, since its gate is off in 1.36.
package statefulset
