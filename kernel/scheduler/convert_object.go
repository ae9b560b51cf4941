package scheduler

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// objectTypes are the kinds that plugins may declare to read.
var objectTypes = map[string]runtime.Object{
	"Service":               &v1.Service{},
	"ReplicationController": &v1.ReplicationController{},
	"ReplicaSet":            &appsv1.ReplicaSet{},
	"StatefulSet":           &appsv1.StatefulSet{},
	"PersistentVolume":      &v1.PersistentVolume{},
	"PersistentVolumeClaim": &v1.PersistentVolumeClaim{},
	"Namespace":             &v1.Namespace{},
}

func convertObject(object any) (*contractv1.Object, error) {
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
		out.VolumeName = o.Spec.VolumeName
		return out.Object, nil
	case *v1.PersistentVolume:
		out := newObject("PersistentVolume", &o.ObjectMeta)
		out.Volume = convertPersistentVolume(o)
		if affinity := o.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
			out.NodeAffinity = &contractv1.NodeAffinity{HasRequired: true, Required: convertTerms(affinity.Required.NodeSelectorTerms)}
		}
		return out.Object, nil
	case *v1.Namespace:
		return newObject("Namespace", &o.ObjectMeta).Object, nil
	}
	return nil, fmt.Errorf("convert %T: not a kind that plugins can read", object)
}

type objectBuilder struct{ *contractv1.Object }

func newObject(kind string, meta *metav1.ObjectMeta) objectBuilder {
	return objectBuilder{&contractv1.Object{
		Key:    &contractv1.ObjectKey{Kind: kind, Namespace: meta.Namespace, Name: meta.Name},
		Labels: meta.Labels,
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
	if selector == nil {
		return
	}
	b.HasSelector = true
	b.Selector = &contractv1.Selector{MatchLabels: selector.MatchLabels}
	for _, r := range selector.MatchExpressions {
		b.Selector.MatchExpressions = append(b.Selector.MatchExpressions, &contractv1.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
}
