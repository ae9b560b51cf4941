// Package daemonset keeps one pod of each DaemonSet on each node that the set
// wants and that takes it.
//
// A sync reads the DaemonSet, its pods, its revisions and all nodes from shared
// informers, and adopts or releases pods and revisions. It finds the revision of
// the template (history.go), asks for each node whether a pod should run or may
// stay (placement.go), makes what is missing and deletes what is too much
// (manage.go). Then it rolls on (rolling.go) and writes the status (status.go).
//
// Pods are bound by the scheduler: each has a node affinity for the name of its
// node (template.go). A pod that failed is deleted with a back-off per node, so
// that a node that refuses it is not kept busy.
//
// Two things hold back a sync until the caches show what was done before. Counted
// expectations do so for creations and deletions (expectations.go). Resource
// versions of what was written do so for the cache as a whole (written.go), as
// Kubernetes' gate StaleControllerConsistencyDaemonSet has it. With the second, a
// missed event cannot put two pods on a node.
//
// A node is looked at in a queue of its own, which wakes the sets that it concerns.
//
// It imports sdk/controller and its neighbours queue, ownership and revisions, and
// no other controller.
package daemonset
