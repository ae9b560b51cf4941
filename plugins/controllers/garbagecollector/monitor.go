package garbagecollector

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// monitor feeds the graph with the objects of one resource. It is what the
// reflector believes to be its store.
type monitor struct {
	graph    *graph
	resource schema.GroupVersionResource
	kind     string
	changed  func() // called for each event, may be nil

	synced atomic.Bool
	mu     sync.Mutex
	seen   map[types.UID]struct{}
}

var _ cache.ReflectorStore = (*monitor)(nil)

// run watches until ctx ends.
func (m *monitor) run(ctx context.Context, client metadata.Interface) {
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(m.resource).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(m.resource).Watch(ctx, o)
		},
	}, client)
	r := cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, m, cache.ReflectorOptions{Name: "garbagecollector/" + m.resource.String()})
	r.RunWithContext(ctx)
}

// forget takes all objects of the resource out of the graph.
func (m *monitor) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid := range m.seen {
		m.graph.drop(uid, false)
	}
	m.seen = map[types.UID]struct{}{}
}

// Add takes in an object.
func (m *monitor) Add(obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("object of %s: %w", m.resource.Resource, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[o.GetUID()] = struct{}{}
	m.graph.put(m.node(o))
	m.notify()
	return nil
}

// Update is Add.
func (m *monitor) Update(obj any) error { return m.Add(obj) }

// Delete takes out an object.
func (m *monitor) Delete(obj any) error {
	o, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("object of %s: %w", m.resource.Resource, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.seen, o.GetUID())
	m.graph.drop(o.GetUID(), true)
	m.notify()
	return nil
}

// Replace takes in the whole list; what is not in it is gone.
func (m *monitor) Replace(list []any, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.seen
	m.seen = make(map[types.UID]struct{}, len(list))
	for _, obj := range list {
		o, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("object of %s: %w", m.resource.Resource, err)
		}
		m.seen[o.GetUID()] = struct{}{}
		delete(before, o.GetUID())
		m.graph.put(m.node(o))
	}
	for uid := range before {
		m.graph.drop(uid, true)
	}
	m.synced.Store(true)
	m.notify()
	return nil
}

// Resync has nothing to do: the graph is the state.
func (m *monitor) Resync() error { return nil }

func (m *monitor) notify() {
	if m.changed != nil {
		m.changed()
	}
}

func (m *monitor) node(o metav1.Object) *node {
	deleted := o.GetDeletionTimestamp() != nil
	return &node{
		identity:           identity{resource: m.resource, kind: m.kind, namespace: o.GetNamespace(), name: o.GetName(), uid: o.GetUID()},
		owners:             slices.Clone(o.GetOwnerReferences()),
		beingDeleted:       deleted,
		deletingDependents: deleted && slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents),
		orphaning:          deleted && slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents),
		version:            o.GetResourceVersion(),
		policy:             policyOf(o.GetFinalizers()),
	}
}

// policyOf is how an object is deleted whose owners are gone: a finalizer that it has
// already is kept to.
func policyOf(finalizers []string) metav1.DeletionPropagation {
	switch {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		return metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		return metav1.DeletePropagationForeground
	}
	return metav1.DeletePropagationBackground
}
