package storage

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// cacheBudget is what all resources' caches share.
type cacheBudget struct {
	max  int64
	used atomic.Int64

	mu     sync.Mutex
	caches map[*objectCache]struct{}
}

// drop empties all caches.
func (b *cacheBudget) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.caches {
		c.clear()
	}
}

// objectCache holds one resource's decoded objects, for each key that of the highest revision seen. They are immutable.
type objectCache struct {
	budget *cacheBudget
	// specs are those of the same objects, nil if they are no pods.
	specs *podSpecs
	mu    sync.RWMutex
	items map[string]cached
}

type cached struct {
	revision uint64
	obj      runtime.Object
	size     int64
}

// overhead is counted for each object beside its encoded size.
const overhead = 256

func newObjectCache(budget *cacheBudget, specs *podSpecs) *objectCache {
	c := &objectCache{budget: budget, specs: specs, items: map[string]cached{}}
	budget.mu.Lock()
	defer budget.mu.Unlock()
	if budget.caches == nil {
		budget.caches = map[*objectCache]struct{}{}
	}
	budget.caches[c] = struct{}{}
	return c
}

// close empties the cache for good.
func (c *objectCache) close() {
	c.clear()
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	delete(c.budget.caches, c)
}

func (c *objectCache) get(key string, revision uint64) (runtime.Object, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	item, ok := c.items[key]
	if !ok || item.revision != revision {
		return nil, false
	}
	return item.obj, true
}

// latest gives what there is of a key, which may have been written since.
func (c *objectCache) latest(key string) (obj runtime.Object, revision uint64, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	item, ok := c.items[key]
	return item.obj, item.revision, ok
}

// put keeps the object unless it or a newer one is there. To make room it drops others of the same resource at random,
// which is what a map's order is.
func (c *objectCache) put(key string, revision uint64, obj runtime.Object, encoded int) (latest bool) {
	size := int64(encoded) + overhead
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.items[key]
	if ok && old.revision >= revision {
		return false
	}
	c.items[key] = cached{revision: revision, obj: obj, size: size}
	used := c.budget.used.Add(size - old.size)
	if used <= c.budget.max {
		return true
	}
	for k, item := range c.items {
		delete(c.items, k)
		if used = c.budget.used.Add(-item.size); used <= c.budget.max {
			break
		}
	}
	return true
}

func (c *objectCache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if item, ok := c.items[key]; ok {
		delete(c.items, key)
		c.budget.used.Add(-item.size)
	}
}

func (c *objectCache) clear() {
	c.specs.clear()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range c.items {
		c.budget.used.Add(-item.size)
	}
	c.items = map[string]cached{}
}
