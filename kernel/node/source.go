package node

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/node/client"
)

// PodHandler receives the pods of one node, in the order of their changes. Calls come one at a time from the source's
// goroutine and must not block. The pod is shared: read only.
type PodHandler interface {
	// PodSet: the pod is new or changed.
	PodSet(pod *corev1.Pod)
	// PodGone: the pod no longer exists in the API.
	PodGone(pod *corev1.Pod)
}

// PodSource hands out the pods bound to nodes.
type PodSource interface {
	// Subscribe delivers every known pod of the node and then its changes, until cancel is called.
	Subscribe(nodeName string, h PodHandler) (cancel func())
	// Synced is closed once the first complete list was delivered to the subscribers that were there.
	Synced() <-chan struct{}
}

// SharedPodSource watches pods once and hands each to the subscriber of its node: one watch for many agents.
type SharedPodSource struct {
	source cache.ListerWatcher
	strip  bool // the objects are this source's own
	synced chan struct{}

	mu   sync.Mutex
	subs map[string]PodHandler
	pods map[string]map[string]*corev1.Pod // node, namespace/name
}

var _ PodSource = (*SharedPodSource)(nil)

// NewPodSource watches the pods of one node, or of all nodes when nodeName is empty. Run it.
func NewPodSource(client client.Interface, nodeName string) *SharedPodSource {
	selector := BoundPods()
	if nodeName != "" {
		selector = fields.OneTermEqualSelector("spec.nodeName", nodeName)
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector.String()
			return client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector.String()
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, o)
		},
	}
	s := NewPodSourceFrom(cache.ToListWatcherWithWatchListSemantics(lw, client))
	s.strip = true
	return s
}

// NewPodSourceFrom is NewPodSource over a source of pods, whose objects are shared and never changed here.
func NewPodSourceFrom(pods cache.ListerWatcher) *SharedPodSource {
	return &SharedPodSource{
		source: pods, synced: make(chan struct{}),
		subs: map[string]PodHandler{}, pods: map[string]map[string]*corev1.Pod{},
	}
}

// BoundPods selects the pods of all nodes.
func BoundPods() fields.Selector { return fields.OneTermNotEqualSelector("spec.nodeName", "") }

// Synced implements PodSource.
func (s *SharedPodSource) Synced() <-chan struct{} { return s.synced }

// Subscribe implements PodSource. A second subscriber of the same node replaces the first.
func (s *SharedPodSource) Subscribe(nodeName string, h PodHandler) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subs[nodeName] = h
	for _, pod := range s.pods[nodeName] {
		h.PodSet(pod)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.subs[nodeName] == h {
			delete(s.subs, nodeName)
		}
	}
}

// Run watches until ctx ends.
func (s *SharedPodSource) Run(ctx context.Context) error {
	options := cache.InformerOptions{
		ListerWatcher: s.source, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { s.set(o) },
			UpdateFunc: func(_, o any) { s.set(o) },
			DeleteFunc: func(o any) { s.gone(o) },
		},
	}
	if s.strip {
		options.Transform = func(o any) (any, error) {
			if pod, ok := o.(*corev1.Pod); ok && pod.ManagedFields != nil {
				pod.ManagedFields = nil // a third of it, and of no use here
			}
			return o, nil
		}
	}
	_, informer := cache.NewInformerWithOptions(options)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for !informer.HasSynced() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		close(s.synced)
	})
	informer.RunWithContext(ctx)
	return nil
}

func (s *SharedPodSource) set(o any) {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	byKey := s.pods[pod.Spec.NodeName]
	if byKey == nil {
		byKey = map[string]*corev1.Pod{}
		s.pods[pod.Spec.NodeName] = byKey
	}
	key := pod.Namespace + "/" + pod.Name
	h := s.subs[pod.Spec.NodeName]
	// A pod that was deleted and created again under its name while the watch was down shows only as an update.
	if old := byKey[key]; old != nil && old.UID != pod.UID && h != nil {
		h.PodGone(old)
	}
	byKey[key] = pod
	if h != nil {
		h.PodSet(pod)
	}
}

func (s *SharedPodSource) gone(o any) {
	if t, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = t.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods[pod.Spec.NodeName], pod.Namespace+"/"+pod.Name)
	if h := s.subs[pod.Spec.NodeName]; h != nil {
		h.PodGone(pod)
	}
}
