// Package replicaset keeps the number of pods of each ReplicaSet and each
// ReplicationController at what its spec asks (RCC-1). One implementation
// serves both kinds: a ReplicationController is looked at as a ReplicaSet by
// the adapter in replication.go, and its status is written back in its own
// form.
//
// Pods and replica sets come from shared informers; their events enqueue the
// owner. Because caches lag behind writes, the creations and deletions of a
// sync are remembered as expectations (5 minutes at most), and until the
// informer has shown them pods are neither made nor deleted; the status is
// written all the same (RCC-7 to RCC-10, RCC-13 to RCC-15, ODD-31). A sync
// makes or deletes at most 500 pods (RCC-19); creations start with one and
// double while they succeed, so that a quota that refuses is not flooded.
// The status of a large set is written at most every 0.2 seconds (pace.go).
// Which pods go first on scale-down is in ranking.go (RCC-22).
package replicaset
