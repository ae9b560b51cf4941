// Package devicetainteviction deletes the pods that use a device with a NoExecute taint which their claim does not
// tolerate. Drivers taint the devices of their ResourceSlices.
//
// A pod is due when it has a node, and a claim that is allocated, is its own and is reserved for it has such a device.
// A toleration without an end spares it from that taint; one of some seconds delays it, counted from when the taint
// was added, and the shortest counts. Of several taints and devices the earliest moment counts. As in
// kube-controller-manager, only tolerations that name the effect NoExecute count. Slices below the newest generation
// of their pool say nothing.
//
// An event DeviceTaintManagerEviction says that a pod is marked, and one that a planned deletion is cancelled. The
// condition DisruptionTarget says why, before the pod is deleted. Both name the pod's UID.
//
// Nothing is remembered but what is planned: each change of a pod, a claim or a pool has the pods looked at that it
// concerns, with all that the caches have. Taints by DeviceTaintRules are off in Kubernetes 1.36 (DRADeviceTaintRules).
//
// It imports sdk/controller, sdk/metrics, queue and settings, and no other controller.
package devicetainteviction
