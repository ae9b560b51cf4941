package clusterips

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// follower puts the names of a kind's objects into the queue, and keeps nothing of
// them.
type follower struct {
	r    *Repair
	kind string
}

var _ cache.ReflectorStore = (*follower)(nil)

// Add implements cache.ReflectorStore. A service that was made with its record,
// as all are but by accident, needs no look.
func (f *follower) Add(obj any) error {
	switch o := obj.(type) {
	case *networkingv1.IPAddress:
		if o.Labels[networkingv1.LabelManagedBy] == manager && ofService(o) {
			f.r.expect(o)
			return nil
		}
	case *corev1.Service:
		if f.r.meets(o) {
			return nil
		}
	}
	return f.look(obj)
}

// look has an object looked at.
func (f *follower) look(obj any) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	f.r.queue.Add(item{f.kind, types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}})
	return nil
}

// Update implements cache.ReflectorStore.
func (f *follower) Update(obj any) error {
	f.addParent(obj)
	return f.look(obj)
}

// Delete implements cache.ReflectorStore.
func (f *follower) Delete(obj any) error {
	f.addParent(obj)
	return f.look(obj)
}

// addParent has the service looked at whose record changed.
func (f *follower) addParent(obj any) {
	if o, ok := obj.(*networkingv1.IPAddress); ok && ofService(o) {
		f.r.queue.Add(item{kindService, parentOf(o)})
	}
}

// Replace implements cache.ReflectorStore.
func (f *follower) Replace(objs []any, _ string) error {
	for _, obj := range objs {
		if err := f.look(obj); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *follower) Resync() error { return nil }
