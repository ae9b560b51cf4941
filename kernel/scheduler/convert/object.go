package convert

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Object converts an object of a kind of package readable to what plugins see of it.
// It fails for other kinds.
func Object(object any) (*contractv1.Object, error) {
	switch o := object.(type) {
	case *v1.Service:
		out := newObject("Service", &o.ObjectMeta)
		out.setLabels(o.Spec.Selector)
		return out.Object, nil
	case *v1.ReplicationController:
		out := newObject("ReplicationController", &o.ObjectMeta)
		out.setLabels(o.Spec.Selector)
		return out.Object, nil
	case *appsv1.ReplicaSet:
		out := newObject("ReplicaSet", &o.ObjectMeta)
		out.setSelector(o.Spec.Selector)
		return out.Object, nil
	case *appsv1.StatefulSet:
		out := newObject("StatefulSet", &o.ObjectMeta)
		out.setSelector(o.Spec.Selector)
		return out.Object, nil
	case *v1.PersistentVolumeClaim:
		out := newObject("PersistentVolumeClaim", &o.ObjectMeta)
		out.VolumeName, out.Storage = o.Spec.VolumeName, convertClaim(o)
		return out.Object, nil
	case *v1.PersistentVolume:
		out := newObject("PersistentVolume", &o.ObjectMeta)
		out.Volume, out.Storage = convertPersistentVolume(o), convertVolumeStorage(o)
		out.NodeAffinity = volumeAffinity(o)
		translatePersistent(out.Object, o)
		return out.Object, nil
	case *v1.Namespace:
		return newObject("Namespace", &o.ObjectMeta).Object, nil
	case *policyv1.PodDisruptionBudget:
		out := newObject("PodDisruptionBudget", &o.ObjectMeta)
		out.setSelector(o.Spec.Selector)
		out.DisruptionBudget = &contractv1.DisruptionBudget{
			DisruptionsAllowed: o.Status.DisruptionsAllowed, DisruptedPods: slices.Sorted(maps.Keys(o.Status.DisruptedPods)),
		}
		return out.Object, nil
	case *storagev1.StorageClass:
		out := newObject("StorageClass", &o.ObjectMeta)
		out.StorageClass = convertStorageClass(o)
		return out.Object, nil
	case *storagev1.CSINode:
		out := newObject("CSINode", &o.ObjectMeta)
		out.Drivers = convertDrivers(o)
		return out.Object, nil
	case *storagev1.CSIDriver:
		out := newObject("CSIDriver", &o.ObjectMeta)
		out.CsiDriver = convertCSIDriver(o)
		return out.Object, nil
	case *storagev1.CSIStorageCapacity:
		out := newObject("CSIStorageCapacity", &o.ObjectMeta)
		out.Storage = convertCapacity(o)
		return out.Object, nil
	case *storagev1.VolumeAttachment:
		out := newObject("VolumeAttachment", &o.ObjectMeta)
		out.Attachment = convertAttachment(o)
		return out.Object, nil
	}
	return nil, fmt.Errorf("convert %T: not a kind that plugins can read", object)
}

type objectBuilder struct{ *contractv1.Object }

func newObject(kind string, meta *metav1.ObjectMeta) objectBuilder {
	return objectBuilder{&contractv1.Object{
		Key:    &contractv1.ObjectKey{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		Labels: meta.Labels, Uid: string(meta.UID), Annotations: meta.Annotations, Terminating: meta.DeletionTimestamp != nil,
	}}
}

// setLabels takes the map selector of services and replication controllers, of
// which an empty one selects nothing.
func (b objectBuilder) setLabels(selector map[string]string) {
	if len(selector) > 0 {
		b.HasSelector = true
		b.Selector = &contractv1.Selector{MatchLabels: selector}
	}
}

func (b objectBuilder) setSelector(selector *metav1.LabelSelector) {
	b.HasSelector, b.Selector = convertSelector(selector)
}
