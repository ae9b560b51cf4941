// Package resourceclaim makes the ResourceClaims that pods ask for by templates, and takes claims back from pods
// that have ended.
//
// A pod that waits gets one claim of each of its entries with a template: named by pod and entry, with the
// template's labels, annotations and spec, owned by the pod. The pod's status says which (resourceClaimStatuses).
// A claim that was made before a failure is found by its owner and an annotation, so that there are never two. A
// claim of the recorded name that another object owns, be it an earlier pod of the name, is never used.
//
// A reservation ends when its pod has ended, is gone, or has another UID. A pod that the cache does not have is
// asked for, since the scheduler may know it earlier. The last reservation takes the allocation with it, then the
// finalizer. Claims that were made for a pod go when it has ended, also those that a scheduler makes for extended
// resources. A pod that was bound without the scheduler gets its reservation here.
//
// It differs from kube-controller-manager in four ways. A pod that has ended gets no new claim. The status is
// applied whole: one new claim does not take the others out of it. Deletions and the status name UIDs. The cache's
// templates are not changed. Claims of PodGroups are off in Kubernetes 1.36 (DRAWorkloadResourceClaims).
//
// Pods, claims and templates come by the shared informers and are not changed. Who allocates devices is no matter
// of this package. It imports sdk/controller, sdk/metrics, queue and settings, and no other controller.
package resourceclaim
