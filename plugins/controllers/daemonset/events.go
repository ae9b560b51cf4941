package daemonset

import (
	"context"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/plugins/controllers/ownership"
	"pintle.dev/pintle/plugins/controllers/queue"
)

func (k *keeper) setChanged(old, ds *appsv1.DaemonSet) {
	// What was expected of one that is gone says nothing of another of its name.
	if old != nil && (ds == nil || old.UID != ds.UID) {
		k.expect.forget(queue.Key(old))
		k.written.forget(queue.Key(old))
	}
	if ds == nil {
		ds = old
	}
	k.Add(queue.Key(ds))
}

// owner returns the cached set that controls an object.
func (k *keeper) owner(o metav1.Object) (*appsv1.DaemonSet, string) {
	ds := ownership.Owner[*appsv1.DaemonSet](k.sets, gvk.Kind, o.GetNamespace(), metav1.GetControllerOfNoCopy(o))
	if ds == nil {
		return nil, ""
	}
	return ds, queue.Key(ds)
}

// matching wakes all sets that might adopt an orphan.
func (k *keeper) matching(o metav1.Object) {
	for _, ds := range ownership.Adopters(k.sets, o, func(ds *appsv1.DaemonSet) *metav1.LabelSelector { return ds.Spec.Selector }) {
		k.Add(queue.Key(ds))
	}
}

// changed wakes those that an object has, had, or may have as its controller.
func (k *keeper) changed(old, current metav1.Object) {
	if ds, key := k.owner(old); ds != nil && !metav1.IsControlledBy(current, ds) {
		k.Add(key)
	}
	if metav1.GetControllerOfNoCopy(current) != nil {
		if ds, key := k.owner(current); ds != nil {
			k.Add(key)
		}
		return
	}
	if metav1.GetControllerOfNoCopy(old) != nil || !maps.Equal(old.GetLabels(), current.GetLabels()) {
		k.matching(current)
	}
}

func (k *keeper) revisionChanged(old, c *appsv1.ControllerRevision) {
	switch {
	case c == nil, old == nil && c.DeletionTimestamp != nil:
		if c == nil {
			c = old
		}
		if ds, key := k.owner(c); ds != nil {
			k.Add(key)
		}
	case old == nil:
		if metav1.GetControllerOfNoCopy(c) == nil {
			k.matching(c)
		}
	case old.ResourceVersion != c.ResourceVersion:
		k.changed(old, c)
	}
}

func (k *keeper) podChanged(old, pod *corev1.Pod) {
	switch {
	case pod == nil:
		k.podDeleted(old)
	case old != nil && old.ResourceVersion == pod.ResourceVersion:
	case pod.DeletionTimestamp != nil:
		// The mark counts as the deletion: the place is free when the pod ended.
		k.podDeleted(pod)
	case old == nil:
		if metav1.GetControllerOfNoCopy(pod) == nil {
			k.matching(pod)
		} else if ds, key := k.owner(pod); ds != nil {
			k.expect.created(key, 1)
			k.Add(key)
		}
	default:
		k.changed(old, pod)
		ds, key := k.owner(pod)
		if ds != nil && ds.Spec.MinReadySeconds > 0 && readyCondition(old) == nil && readyCondition(pod) != nil {
			// The second lets clocks differ a little.
			k.AddAfter(key, time.Duration(ds.Spec.MinReadySeconds)*time.Second+time.Second)
		}
	}
}

func (k *keeper) podDeleted(pod *corev1.Pod) {
	if ds, key := k.owner(pod); ds != nil {
		k.expect.deleted(key, podKey(pod))
		k.Add(key)
	}
}

// nodeChanged looks at a node that is new, or whose labels or taints changed.
func (k *keeper) nodeChanged(old, node *corev1.Node) {
	if node == nil || old != nil && maps.Equal(old.Labels, node.Labels) && equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		return
	}
	k.nodeLoop.Add(node.Name)
}

// syncNode wakes the sets that have too little or too much on the node, or whose
// count of misplaced pods may have changed.
func (k *keeper) syncNode(_ context.Context, name string) error {
	obj, there, err := k.nodeCache.GetByKey(name)
	if err != nil || !there {
		return err
	}
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	pods, err := k.pods.ByIndex(byNode, name)
	if err != nil {
		return err
	}
	scheduled := map[string]bool{}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok {
			if _, key := k.owner(pod); key != "" {
				scheduled[key] = true
			}
		}
	}
	for _, obj := range k.sets.List() {
		ds, ok := obj.(*appsv1.DaemonSet)
		if !ok {
			continue
		}
		key := queue.Key(ds)
		run, stay := placementOf(ds).on(node)
		if run && !scheduled[key] || !stay && scheduled[key] || scheduled[key] && ds.Status.NumberMisscheduled > 0 {
			k.Add(key)
		}
	}
	return nil
}
