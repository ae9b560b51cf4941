// Package job runs Jobs to their end (WL-2, 18.17 to 18.27): it makes the pods
// that a Job asks for, counts those that succeed and fail, each once, and says
// in conditions how the Job ended, as kube-controller-manager 1.36 does.
//
// How data passes through: events of Jobs and pods put the Job's key on a
// queue (controller.go). A sync (sync.go) reads the Job and its pods from the
// shared informers, adopts and releases pods, judges whether the Job ended
// (finish.go, failurepolicy.go, successpolicy.go), makes or deletes pods
// (manage.go), and accounts for those that ended (account.go). A second queue
// takes the tracking finalizer off pods that no Job counts (orphans.go).
//
// Each pod carries the finalizer batch.kubernetes.io/job-tracking until it is
// counted. The order of writes keeps the count exact through a crash between
// any two of them: the pod's UID goes into status.uncountedTerminatedPods,
// then its finalizer goes, then the counter takes the place of the UID. Of an Indexed
// Job the completed indexes take the place of the UIDs.
//
// Caches lag behind writes. A sync does not begin until the caches show the
// writes of the syncs before it (versions.go), pods are neither made nor
// deleted while expected events are missing, and a finalizer that was taken off
// is not looked at again (expectations.go). All of this is kept by the Job's
// UID, so that it says nothing of another Job of the same name.
//
// The work of a sync is bounded: it makes at most 500 pods and counts at most
// 500, and pods are written by at most 64 goroutines, which it waits for.
//
// It imports client-go, queue, ownership and sdk only.
package job
