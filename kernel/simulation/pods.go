package simulation

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/scheduler"
)

// Pods are the pods that an object stands for: itself, or those of its template
// as often as it has replicas. Other objects stand for none.
func Pods(o runtime.Object) ([]*v1.Pod, error) {
	var owner metav1.Object
	var kind metav1.TypeMeta
	var template *v1.PodTemplateSpec
	var replicas int32
	switch w := o.(type) {
	case *v1.Pod:
		return []*v1.Pod{w}, nil
	case *appsv1.Deployment:
		owner, kind, template, replicas = w, w.TypeMeta, &w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		owner, kind, template, replicas = w, w.TypeMeta, &w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		owner, kind, template, replicas = w, w.TypeMeta, &w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *v1.ReplicationController:
		if w.Spec.Template == nil {
			return nil, fmt.Errorf("replicationcontroller %s: no pod template", w.Name)
		}
		owner, kind, template, replicas = w, w.TypeMeta, w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *batchv1.Job:
		owner, kind, template, replicas = w, w.TypeMeta, &w.Spec.Template, ptr.Deref(w.Spec.Parallelism, 1)
	default:
		return nil, nil
	}
	if replicas < 0 || replicas > scheduler.SimulationMax {
		return nil, fmt.Errorf("%s: %d replicas; at most %d are simulated", owner.GetName(), replicas, scheduler.SimulationMax)
	}
	var pods []*v1.Pod
	for i := range replicas {
		p := &v1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
		p.Name, p.Namespace = fmt.Sprintf("%s-%d", owner.GetName(), i), owner.GetNamespace()
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: kind.APIVersion, Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true),
		}}
		pods = append(pods, p)
	}
	return pods, nil
}
