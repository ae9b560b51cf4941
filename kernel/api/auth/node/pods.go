package node

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// pods keeps the relations of pods on nodes. A reflector fills it; it is safe for
// concurrent use. It is no informer's cache, since no one else reads it: each of many
// thousand pods would wait in a queue and be indexed by its names.
type pods struct {
	mu sync.RWMutex
	// whole: a first list was taken in.
	whole bool
	known map[types.NamespacedName]*relations
	on    map[string][]*relations // by node
}

var _ cache.ReflectorStore = (*pods)(nil)

func newPods() *pods {
	return &pods{known: map[types.NamespacedName]*relations{}, on: map[string][]*relations{}}
}

// Follow keeps the relations of the pods that a source lists and watches until ctx
// ends. Pods without a node matter to nobody here: the source may leave them out.
func (a *Authorizer) Follow(ctx context.Context, source cache.ListerWatcher) {
	cache.NewReflectorWithOptions(source, &corev1.Pod{}, a.pods, cache.ReflectorOptions{Name: "node-authorizer"}).RunWithContext(ctx)
}

// synced says whether a first list was taken in.
func (p *pods) synced() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.whole
}

// any says whether some pod of a node is as asked.
func (p *pods) any(node string, asked func(*relations) bool) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.ContainsFunc(p.on[node], asked)
}

// Add implements cache.ReflectorStore.
func (p *pods) Add(obj any) error { return p.Update(obj) }

// Update implements cache.ReflectorStore.
func (p *pods) Update(obj any) error {
	key, pod, err := podOf(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(key, pod)
	return nil
}

func podOf(obj any) (types.NamespacedName, *corev1.Pod, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return types.NamespacedName{}, nil, fmt.Errorf("node authorizer: %T is no pod", obj)
	}
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, pod, nil
}

// put takes a pod in; p.mu is held.
func (p *pods) put(key types.NamespacedName, pod *corev1.Pod) {
	old := p.known[key]
	if old != nil && old.of(pod) {
		return
	}
	p.drop(key, old)
	if pod.Spec.NodeName == "" {
		return
	}
	now := relationsOf(pod)
	p.known[key] = now
	p.on[now.node] = append(p.on[now.node], now)
}

// Delete implements cache.ReflectorStore.
func (p *pods) Delete(obj any) error {
	key, _, err := podOf(obj)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(key, p.known[key])
	return nil
}

// drop forgets a pod, if it is known; p.mu is held.
func (p *pods) drop(key types.NamespacedName, old *relations) {
	if old == nil {
		return
	}
	delete(p.known, key)
	rest := slices.DeleteFunc(p.on[old.node], func(r *relations) bool { return r == old })
	if len(rest) == 0 {
		delete(p.on, old.node)
	} else {
		p.on[old.node] = rest
	}
}

// Replace implements cache.ReflectorStore.
func (p *pods) Replace(list []any, _ string) error {
	listed := make(map[types.NamespacedName]*corev1.Pod, len(list))
	for _, obj := range list {
		key, pod, err := podOf(obj)
		if err != nil {
			return err
		}
		listed[key] = pod
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, old := range p.known {
		if listed[key] == nil {
			p.drop(key, old)
		}
	}
	for key, pod := range listed {
		p.put(key, pod)
	}
	p.whole = true
	return nil
}

// Resync implements cache.ReflectorStore.
func (p *pods) Resync() error { return nil }
