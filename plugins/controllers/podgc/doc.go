// Package podgc deletes pods that nobody else will: the oldest of the
// finished ones when there are too many (PGC-1 to PGC-8), those bound to a
// node that is gone (NDC-13), those being deleted that were never bound, and
// those being deleted on a node that is marked out of service.
//
// It looks every 20 seconds at the shared informers of pods and nodes
// (FIL-11). A node must be missing for 40 seconds and be missing in the API
// itself before its pods go, for a cache may show pods earlier than nodes.
// Deletion is by force, since no kubelet will confirm it; a pod that is not
// finished is marked Failed first, so that its controller counts it right.
// Containers and images are the node agent's to collect, not this package's
// (PGC-2).
package podgc
