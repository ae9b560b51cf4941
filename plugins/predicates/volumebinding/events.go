package volumebinding

import (
	"reflect"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/sdk"
)

// Events are those that can help a pod that the predicate or its pre-filter
// refused.
func Events() []sdk.Interest {
	change := sdk.ActionAdd | sdk.ActionUpdate
	return []sdk.Interest{
		{Kind: "StorageClass", Actions: change, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.OldObject == nil || !reflect.DeepEqual(e.OldObject.StorageClass.AllowedTopologies, e.NewObject.StorageClass.AllowedTopologies)
		}},
		{Kind: "PersistentVolumeClaim", Actions: change, Helps: func(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
			return claims.Mounts(pod, e.NewObject, true)
		}},
		{Kind: "PersistentVolume", Actions: change},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel},
		{Kind: "CSINode", Actions: change, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.OldObject == nil || e.OldObject.Annotations[migratedPlugins] != e.NewObject.Annotations[migratedPlugins]
		}},
		{Kind: "CSIDriver", Actions: sdk.ActionUpdate, Helps: unmeasured},
		{Kind: "CSIStorageCapacity", Actions: change, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.OldObject == nil || roomFor(e.NewObject) > roomFor(e.OldObject)
		}},
	}
}

// unmeasured: room is no longer asked for where the driver makes volumes, and it
// may make one of the pod's. kube-scheduler looks at volumes that name their driver
// themselves alone, which it never refuses for want of room: a pod whose claim waits
// for room is tried there at the next flush of the queue.
func unmeasured(c *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	if !e.OldObject.CSIDriver.StorageCapacity || e.NewObject.CSIDriver.StorageCapacity {
		return false
	}
	driver := e.NewObject.Name
	for i := range pod.Volumes {
		v := &pod.Volumes[i]
		if v.Type == "csi" && v.ID == driver {
			return true
		}
		if name, _, ok := claims.Of(v); ok {
			if claim := claims.Get(c, pod, name); claim != nil {
				if _, class := claims.Class(c, claim); class != nil && class.Provisioner == driver {
					return true
				}
			}
		}
	}
	return false
}

// roomFor is the largest volume that a storage capacity has room for.
func roomFor(o *sdk.Object) int64 {
	if n := o.Storage.MaximumVolumeBytes; n != 0 {
		return max(n, 0)
	}
	return o.Storage.Bytes
}
