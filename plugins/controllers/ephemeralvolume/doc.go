// Package ephemeralvolume makes the claim of each generic ephemeral volume of a pod: named by the pod and the volume,
// with the volume's template and the pod as its owner, so that it goes when the pod goes.
//
// New pods, and claims that end, enqueue pods. A claim of the name that is not the pod's is never used: an event says
// so, and the pod is looked at again.
package ephemeralvolume
