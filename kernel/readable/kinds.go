package readable

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one kind of objects. It is never changed.
type Kind struct {
	Resource schema.GroupVersionResource
	Object   runtime.Object // an empty object of its Go type
}

var kinds = map[string]Kind{
	"Service":               {v1.SchemeGroupVersion.WithResource("services"), &v1.Service{}},
	"ReplicationController": {v1.SchemeGroupVersion.WithResource("replicationcontrollers"), &v1.ReplicationController{}},
	"ReplicaSet":            {appsv1.SchemeGroupVersion.WithResource("replicasets"), &appsv1.ReplicaSet{}},
	"StatefulSet":           {appsv1.SchemeGroupVersion.WithResource("statefulsets"), &appsv1.StatefulSet{}},
	"PersistentVolume":      {v1.SchemeGroupVersion.WithResource("persistentvolumes"), &v1.PersistentVolume{}},
	"PersistentVolumeClaim": {v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), &v1.PersistentVolumeClaim{}},
	"Namespace":             {v1.SchemeGroupVersion.WithResource("namespaces"), &v1.Namespace{}},
	"PodDisruptionBudget":   {policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets"), &policyv1.PodDisruptionBudget{}},
	"StorageClass":          {storagev1.SchemeGroupVersion.WithResource("storageclasses"), &storagev1.StorageClass{}},
	"CSINode":               {storagev1.SchemeGroupVersion.WithResource("csinodes"), &storagev1.CSINode{}},
	"CSIDriver":             {storagev1.SchemeGroupVersion.WithResource("csidrivers"), &storagev1.CSIDriver{}},
	"CSIStorageCapacity":    {storagev1.SchemeGroupVersion.WithResource("csistoragecapacities"), &storagev1.CSIStorageCapacity{}},
	"VolumeAttachment":      {storagev1.SchemeGroupVersion.WithResource("volumeattachments"), &storagev1.VolumeAttachment{}},
}

// Names returns the names of the kinds, sorted.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// Of returns the kind of a name.
func Of(name string) (Kind, bool) {
	kind, ok := kinds[name]
	return kind, ok
}
