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
		{Kind: "CSIDriver", Actions: sdk.ActionUpdate, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.OldObject.CSIDriver.StorageCapacity && !e.NewObject.CSIDriver.StorageCapacity
		}},
		{Kind: "CSIStorageCapacity", Actions: change, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.OldObject == nil || roomFor(e.NewObject) > roomFor(e.OldObject)
		}},
	}
}

// roomFor is the largest volume that a storage capacity has room for.
func roomFor(o *sdk.Object) int64 {
	if n := o.Storage.MaximumVolumeBytes; n != 0 {
		return max(n, 0)
	}
	return o.Storage.Bytes
}
