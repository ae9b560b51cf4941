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
}

// objectCache holds one resource's decoded objects, for each key that of the highest revision seen. They are immutable.
type objectCache struct {
	budget *cacheBudget
	mu     sync.RWMutex
	items  map[string]cached
	// order is how objects came, from next on; one that was replaced or dropped meanwhile is still in it.
	order []arrival
	next  int
}

// arrival is a key that was put at a revision.
type arrival struct {
	key      string
	revision uint64
}

type cached struct {
	revision uint64
	obj      runtime.Object
	size     int64
}

// overhead is counted for each object beside its encoded size.
const overhead = 256

func newObjectCache(budget *cacheBudget) *objectCache {
	return &objectCache{budget: budget, items: map[string]cached{}}
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

// put keeps the object unless a newer one is there. To make room it drops those of the same resource that came first.
// Objects that came together lie together in memory: dropping them at random would leave a few of them in every span of
// the heap, which then cannot be given back (716 MB of spans held 175 MB of objects).
func (c *objectCache) put(key string, revision uint64, obj runtime.Object, encoded int) {
	size := int64(encoded) + overhead
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.items[key]
	if ok && old.revision >= revision {
		return
	}
	c.items[key] = cached{revision: revision, obj: obj, size: size}
	c.order = append(c.order, arrival{key, revision})
	used := c.budget.used.Add(size - old.size)
	for used > c.budget.max && c.next < len(c.order) {
		first := c.order[c.next]
		c.order[c.next] = arrival{}
		c.next++
		if item, ok := c.items[first.key]; ok && item.revision == first.revision {
			delete(c.items, first.key)
			used = c.budget.used.Add(-item.size)
		}
	}
	c.tidy()
}

// tidy keeps order from growing: what has left it goes, and what was replaced or dropped when that is the most of it.
func (c *objectCache) tidy() {
	const few = 1024
	if len(c.order) < few || c.next < len(c.order)/2 && len(c.order)-c.next < 2*len(c.items)+few {
		return
	}
	kept := make([]arrival, 0, len(c.items)+few)
	for _, a := range c.order[c.next:] {
		if item, ok := c.items[a.key]; ok && item.revision == a.revision {
			kept = append(kept, a)
		}
	}
	c.order, c.next = kept, 0
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, item := range c.items {
		c.budget.used.Add(-item.size)
	}
	c.items, c.order, c.next = map[string]cached{}, nil, 0
}
