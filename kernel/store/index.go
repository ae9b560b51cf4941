package store

import (
	"strings"
	"sync"

	"github.com/google/btree"
)

// entry is what the index knows of a live key.
type entry struct {
	key      string
	revision uint64
	expires  int64
	size     int64
}

func entryLess(a, b entry) bool { return a.key < b.key }

// index holds the live keys of the current revision in order. The writer alone changes it.
type index struct {
	mu       sync.RWMutex
	tree     *btree.BTreeG[entry]
	revision uint64
	// clone is the last tree handed out and still equal to tree, so that readers between two commits share one.
	clone *btree.BTreeG[entry]
	keys  keySlab
}

// keySlab puts keys side by side. A key that came with a request lies among what else the request needed, all of which
// is garbage soon; a key that stays would keep the memory around it from being given back.
type keySlab struct{ chunk strings.Builder }

const slabBytes = 4 << 10

func (k *keySlab) keep(key string) string {
	if len(key) > slabBytes/4 {
		return strings.Clone(key)
	}
	if k.chunk.Cap()-k.chunk.Len() < len(key) {
		k.chunk = strings.Builder{}
		k.chunk.Grow(slabBytes)
	}
	start := k.chunk.Len()
	k.chunk.WriteString(key)
	return k.chunk.String()[start:]
}

// pending is an entry that a group makes. there says that the index has one of the key, and that the key is its own;
// replaced that the group has a later one of the key.
type pending struct {
	entry
	there, replaced bool
}

// set adds or changes an entry. Nobody else has x yet.
func (x *index) set(e entry) {
	if before, ok := x.tree.Get(e); ok {
		e.key = before.key
	} else {
		e.key = x.keys.keep(e.key)
	}
	x.tree.ReplaceOrInsert(e)
}

func newIndex() *index {
	return &index{tree: btree.NewG(32, entryLess)}
}

func (x *index) get(key string) (e entry, revision uint64, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	e, ok = x.tree.Get(entry{key: key})
	return e, x.revision, ok
}

func (x *index) current() uint64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.revision
}

// snapshot gives the tree as of now; it never changes.
func (x *index) snapshot() (*btree.BTreeG[entry], uint64) {
	x.mu.RLock()
	tree, revision := x.clone, x.revision
	x.mu.RUnlock()
	if tree != nil {
		return tree, revision
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.clone == nil {
		x.clone = x.tree.Clone()
	}
	return x.clone, x.revision
}

// apply makes a group's outcome visible at once: the keys of the group get its entries, revision 0 removes.
func (x *index) apply(group []pending, revision uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clone = nil
	for i := range group {
		e := &group[i]
		switch {
		case e.replaced:
			continue
		case e.revision == 0:
			x.tree.Delete(e.entry)
			continue
		case !e.there:
			e.key = x.keys.keep(e.key)
		}
		x.tree.ReplaceOrInsert(e.entry)
	}
	x.revision = revision
}
