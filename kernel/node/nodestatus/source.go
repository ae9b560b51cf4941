package nodestatus

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/node/client"
)

// Source watches Node objects and hands each to the one who asked for it: one watch for many reporters.
type Source struct {
	watched cache.ListerWatcher
	strip   bool // the objects are this source's own

	mu    sync.Mutex
	subs  map[string]*subscription
	nodes map[string]*corev1.Node
}

type subscription struct{ observe func(*corev1.Node) }

// NewSource watches the Node of that name. Run it.
func NewSource(client client.Interface, name string) *Source {
	selector := fields.OneTermEqualSelector("metadata.name", name).String()
	return NewSharedSource(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return client.CoreV1().Nodes().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.CoreV1().Nodes().Watch(ctx, o)
		},
	}, client))
}

// NewSharedSource is NewSource over a client's watch of several nodes. What it lists and watches is this source's own,
// and loses here what no reporter reads.
func NewSharedSource(nodes cache.ListerWatcher) *Source {
	s := NewSourceFrom(nodes)
	s.strip = true
	return s
}

// NewSourceFrom is NewSource over a source of all nodes, whose objects are shared and never changed here.
func NewSourceFrom(nodes cache.ListerWatcher) *Source {
	return &Source{watched: nodes, subs: map[string]*subscription{}, nodes: map[string]*corev1.Node{}}
}

// Subscribe hands over the Node of that name, now if it is known and at each change, until cancel is called. Calls come
// one at a time and must not block. A second subscriber of a name replaces the first.
func (s *Source) Subscribe(name string, observe func(*corev1.Node)) (cancel func()) {
	sub := &subscription{observe}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[name] = sub
	if node := s.nodes[name]; node != nil {
		observe(node)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.subs[name] == sub {
			delete(s.subs, name)
		}
	}
}

// Run watches until ctx ends.
func (s *Source) Run(ctx context.Context) {
	options := cache.InformerOptions{
		ListerWatcher: s.watched, ObjectType: &corev1.Node{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    s.set,
			UpdateFunc: func(_, o any) { s.set(o) },
			DeleteFunc: s.gone,
		},
	}
	if s.strip {
		options.Transform = func(o any) (any, error) {
			if node, ok := o.(*corev1.Node); ok && node.ManagedFields != nil {
				node.ManagedFields = nil // a third of it, and of no use here
			}
			return o, nil
		}
	}
	_, informer := cache.NewInformerWithOptions(options)
	informer.RunWithContext(ctx)
}

func (s *Source) set(o any) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node.Name] = node
	if sub := s.subs[node.Name]; sub != nil {
		sub.observe(node)
	}
}

func (s *Source) gone(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	if node, ok := o.(*corev1.Node); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.nodes, node.Name)
	}
}
