package resourcequota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	quotav1 "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// relook is how often kinds of count/ names are looked for that are not
// served, or were.
const relook = 30 * time.Second

// listed are the kinds with an evaluator that no shared informer holds.
var listed = []schema.GroupResource{{Resource: "secrets"}, {Resource: "persistentvolumeclaims"}, {Group: "resource.k8s.io", Resource: "resourceclaims"}}

// replenishment watches one kind that no shared informer holds, as metadata,
// and says in which namespaces something may have been freed (RQC-8). It is
// what the reflector believes to be its store; of the objects it keeps nothing
// but names, to see after a break which of them have gone.
type replenishment struct {
	freed   func(namespace string) // "" is any
	updates bool                   // an update can free something

	mu     sync.Mutex
	known  map[cache.ObjectName]struct{}
	filled bool
}

var _ cache.ReflectorStore = (*replenishment)(nil)

// run watches until ctx ends.
func (r *replenishment) run(ctx context.Context, client metadata.Interface, resource schema.GroupVersionResource) {
	objects := client.Resource(resource)
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, o)
		},
	}, client)
	cache.NewReflectorWithOptions(lw, &metav1.PartialObjectMetadata{}, r,
		cache.ReflectorOptions{Name: "resourcequota/" + resource.String()}).RunWithContext(ctx)
}

// Add notes an object; creations are charged by admission (RQC-9).
func (r *replenishment) Add(obj any) error {
	name, err := nameOf(obj)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[name] = struct{}{}
	return nil
}

// Update notes an object and tells, where usage may have changed.
func (r *replenishment) Update(obj any) error {
	name, err := nameOf(obj)
	if err == nil && r.updates {
		r.freed(name.Namespace)
	}
	return err
}

// Delete forgets an object and tells.
func (r *replenishment) Delete(obj any) error {
	name, err := nameOf(obj)
	if err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.known, name)
	r.mu.Unlock()
	r.freed(name.Namespace)
	return nil
}

// Replace notes the whole list and tells of what is not in it any more; the
// first time, of everything, since nobody watched before.
func (r *replenishment) Replace(list []any, _ string) error {
	now := make(map[cache.ObjectName]struct{}, len(list))
	for _, obj := range list {
		name, err := nameOf(obj)
		if err != nil {
			return err
		}
		now[name] = struct{}{}
	}
	r.mu.Lock()
	before, first := r.known, !r.filled
	r.known, r.filled = now, true
	r.mu.Unlock()
	if first {
		r.freed("")
		return nil
	}
	lost := map[string]bool{}
	for name := range before {
		if _, there := now[name]; !there || r.updates {
			lost[name.Namespace] = true
		}
	}
	for namespace := range lost {
		r.freed(namespace)
	}
	return nil
}

// Resync has nothing to do: only changes matter.
func (r *replenishment) Resync() error { return nil }

func nameOf(obj any) (cache.ObjectName, error) {
	o, err := apimeta.Accessor(obj)
	if err != nil {
		return cache.ObjectName{}, fmt.Errorf("object of a watched kind: %w", err)
	}
	return cache.MetaObjectToName(o), nil
}

// watching is a replenishment at work.
type watching struct {
	resource schema.GroupVersionResource
	cancel   context.CancelFunc
	done     chan struct{}
}

func (w *watching) stop() {
	w.cancel()
	<-w.done
}

// replenishments watches what the quotas need watched, until ctx ends.
func (q *quotas) replenishments(ctx context.Context) {
	running := map[schema.GroupResource]*watching{}
	defer func() {
		for _, w := range running {
			w.stop()
		}
	}()
	tick := time.NewTicker(relook)
	defer tick.Stop()
	for {
		q.adjust(ctx, running)
		select {
		case <-ctx.Done():
			return
		case <-q.poke:
		case <-tick.C:
			if slices.ContainsFunc(q.needed(), func(kind schema.GroupResource) bool { return q.registry.Get(kind) == nil }) {
				q.mapper.Reset()
			}
		}
	}
}

// adjust starts and stops watches.
func (q *quotas) adjust(ctx context.Context, running map[schema.GroupResource]*watching) {
	wanted := map[schema.GroupResource]schema.GroupVersionResource{}
	for _, kind := range q.needed() {
		resource, found, err := q.resourceOf(kind)
		switch {
		case err != nil:
			utilruntime.HandleErrorWithContext(ctx, err, "Find a kind that a quota counts", "kind", kind.String())
			if w := running[kind]; w != nil {
				wanted[kind] = w.resource // as long as nothing better is known
			}
		case found:
			wanted[kind] = resource
		}
	}
	for kind, w := range running {
		if wanted[kind] != w.resource {
			w.stop()
			delete(running, kind)
		}
	}
	for kind, resource := range wanted {
		if running[kind] != nil {
			continue
		}
		r := &replenishment{
			freed:   func(namespace string) { q.enqueue(kind, namespace) },
			updates: kind.Resource == "persistentvolumeclaims", // it may ask for less, or be of another class
			known:   map[cache.ObjectName]struct{}{},
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &watching{resource: resource, cancel: cancel, done: make(chan struct{})}
		running[kind] = w
		go func() {
			defer close(w.done)
			r.run(ctx, q.objects, resource)
		}()
	}
}

// needed are the kinds to watch for the quotas that there are.
func (q *quotas) needed() []schema.GroupResource {
	all, err := q.quotas.List(labels.Everything())
	if err != nil {
		return nil
	}
	var kinds []schema.GroupResource
	add := func(kind schema.GroupResource) {
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	for _, quota := range all {
		for _, kind := range listed {
			if q.constrains(quota, kind) {
				add(kind)
			}
		}
		for name := range quota.Spec.Hard {
			if counted, ok := strings.CutPrefix(string(name), "count/"); ok {
				if kind := schema.ParseGroupResource(counted); q.registry.Get(kind) == nil {
					add(kind)
				}
			}
		}
	}
	return kinds
}

// constrains says whether a quota limits a kind.
func (q *quotas) constrains(quota *corev1.ResourceQuota, kind schema.GroupResource) bool {
	if evaluator := q.registry.Get(kind); evaluator != nil {
		return len(evaluator.MatchingResources(quotav1.ResourceNames(quota.Spec.Hard))) > 0
	}
	_, ok := quota.Spec.Hard[corev1.ResourceName("count/"+kind.String())]
	return ok
}

// enqueue queues the quotas of a namespace that limit a kind; "" is every
// namespace.
func (q *quotas) enqueue(kind schema.GroupResource, namespace string) {
	for _, quota := range q.constraining(kind, namespace) {
		q.loop.Add(cache.MetaObjectToName(quota))
	}
}

// constraining are the quotas of a namespace that count a kind.
func (q *quotas) constraining(kind schema.GroupResource, namespace string) []*corev1.ResourceQuota {
	all, err := q.quotas.ResourceQuotas(namespace).List(labels.Everything())
	if err != nil {
		return nil // the lister reads a store, which does not fail
	}
	return slices.DeleteFunc(all, func(quota *corev1.ResourceQuota) bool { return !q.constrains(quota, kind) })
}

// resourceOf finds the served version of a kind; found is false for one that
// is not served.
func (q *quotas) resourceOf(kind schema.GroupResource) (resource schema.GroupVersionResource, found bool, err error) {
	if slices.Contains(listed, kind) {
		return kind.WithVersion("v1"), true, nil
	}
	resource, err = q.mapper.ResourceFor(kind.WithVersion(""))
	if apimeta.IsNoMatchError(err) {
		return resource, false, nil
	}
	return resource, err == nil, err
}
