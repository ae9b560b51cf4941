package store

import (
	"errors"
	"fmt"
	"math"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/google/btree"
)

// KV is a key with its value at some revision. The value belongs to the caller.
type KV struct {
	Key   string
	Value []byte
	// Revision is that of the commit which wrote the value.
	Revision uint64
	// Expires is when the key ends, milliseconds since 1970; 0: never.
	Expires int64
}

func (s *Store) enter() error {
	s.reads.RLock()
	if s.closed {
		s.reads.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *Store) leave() { s.reads.RUnlock() }

// Stat tells the revision of the key's value, 0 when it has none, and the current revision. It reads no disk.
func (s *Store) Stat(key string) (revision, current uint64) {
	e, current, _ := s.index.get(key)
	return e.revision, current
}

// Get reads the key's latest value. current is the revision at which that was so, also with ErrKeyNotFound.
func (s *Store) Get(key string) (kv KV, current uint64, err error) {
	e, current, ok := s.index.get(key)
	if !ok {
		return KV{}, current, ErrKeyNotFound
	}
	kv, err = s.getAt(key, current)
	if err == nil && kv.Revision == e.revision {
		return kv, current, nil
	}
	// Compaction overtook the read: the index knows a newer state now.
	e, current, ok = s.index.get(key)
	if !ok {
		return KV{}, current, ErrKeyNotFound
	}
	if kv, err = s.getAt(key, current); err != nil {
		return KV{}, current, fmt.Errorf("key %q at revision %d: %w", key, e.revision, err)
	}
	return kv, current, nil
}

// GetAt reads the key's value as of a revision. Errors: ErrKeyNotFound, *CompactedError, *FutureRevisionError.
func (s *Store) GetAt(key string, revision uint64) (KV, error) {
	if current := s.index.current(); revision > current {
		return KV{}, &FutureRevisionError{Requested: revision, Current: current}
	}
	kv, err := s.getAt(key, revision)
	// Asked afterwards, so that compaction during the read counts.
	if compacted := s.compacted.Load(); revision < compacted {
		return KV{}, &CompactedError{Requested: revision, Compacted: compacted}
	}
	return kv, err
}

func (s *Store) getAt(key string, revision uint64) (KV, error) {
	if err := s.enter(); err != nil {
		return KV{}, err
	}
	defer s.leave()
	txn := s.db.NewTransactionAt(revision, false)
	defer txn.Discard()
	item, err := txn.Get(dataKey(key))
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			return KV{}, ErrKeyNotFound
		}
		return KV{}, fmt.Errorf("reading key %q: %w", key, err)
	}
	return itemKV(key, item)
}

func itemKV(key string, item *badger.Item) (KV, error) {
	stored, err := item.ValueCopy(nil)
	if err != nil {
		return KV{}, fmt.Errorf("reading the value of key %q: %w", key, err)
	}
	value, revision, expires, err := decodeValue(stored, item.UserMeta(), item.Version())
	if err != nil {
		return KV{}, fmt.Errorf("key %q: %w", key, err)
	}
	return KV{Key: key, Value: value, Revision: revision, Expires: expires}, nil
}

// Snapshot is the whole store at one revision.
type Snapshot struct {
	store    *Store
	revision uint64
	// tree is set when the revision was the current one when the snapshot was taken; else Badger is asked.
	tree *btree.BTreeG[entry]
}

// Snapshot gives the state at a revision, 0: the current one. It needs no closing; when compaction passes it, its
// methods give a *CompactedError. Errors: *CompactedError, *FutureRevisionError.
func (s *Store) Snapshot(revision uint64) (*Snapshot, error) {
	tree, current := s.index.snapshot()
	switch {
	case revision == 0 || revision == current:
		return &Snapshot{store: s, revision: current, tree: tree}, nil
	case revision > current:
		return nil, &FutureRevisionError{Requested: revision, Current: current}
	case revision < s.compacted.Load():
		return nil, &CompactedError{Requested: revision, Compacted: s.compacted.Load()}
	}
	return &Snapshot{store: s, revision: revision}, nil
}

// Revision is the revision that the snapshot shows.
func (p *Snapshot) Revision() uint64 { return p.revision }

// Item is a key met by Ascend. It is valid until the function that got it returns.
type Item struct {
	Key      string
	Revision uint64
	snapshot *Snapshot
	item     *badger.Item
}

// Load reads the item's value. Error: *CompactedError when compaction has passed the snapshot.
func (i *Item) Load() (KV, error) {
	if i.item != nil {
		return itemKV(i.Key, i.item)
	}
	kv, err := i.snapshot.store.getAt(i.Key, i.snapshot.revision)
	if err != nil || kv.Revision != i.Revision {
		if compacted := i.snapshot.store.compacted.Load(); compacted > i.snapshot.revision {
			return KV{}, &CompactedError{Requested: i.snapshot.revision, Compacted: compacted}
		}
		if err == nil {
			err = errCorrupt
		}
		return KV{}, fmt.Errorf("key %q at revision %d: %w", i.Key, i.Revision, err)
	}
	return kv, nil
}

// Ascend calls visit with each key that begins with prefix and is not before from, in order, until it returns false.
func (p *Snapshot) Ascend(prefix, from string, visit func(*Item) bool) error {
	if from < prefix {
		from = prefix
	}
	if p.tree != nil {
		item := Item{snapshot: p}
		p.tree.AscendGreaterOrEqual(entry{key: from}, func(e entry) bool {
			if len(e.key) < len(prefix) || e.key[:len(prefix)] != prefix {
				return false
			}
			item.Key, item.Revision = e.key, e.revision
			return visit(&item)
		})
		return nil
	}
	return p.ascendHistory(prefix, from, visit)
}

func (p *Snapshot) ascendHistory(prefix, from string, visit func(*Item) bool) error {
	s := p.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	txn := s.db.NewTransactionAt(p.revision, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: dataKey(prefix)})
	defer it.Close()
	// The iterator holds the tables it was made with, so compaction matters only up to here.
	if compacted := s.compacted.Load(); compacted > p.revision {
		return &CompactedError{Requested: p.revision, Compacted: compacted}
	}
	for it.Seek(dataKey(from)); it.Valid(); it.Next() {
		item := it.Item()
		i := Item{Key: string(item.Key()[1:]), Revision: item.Version(), snapshot: p, item: item}
		if item.UserMeta()&markCopied != 0 {
			kv, err := itemKV(i.Key, item)
			if err != nil {
				return err
			}
			i.Revision = kv.Revision
		}
		if !visit(&i) {
			return nil
		}
	}
	return nil
}

// Count is the number of keys that begin with prefix and are not before from.
func (p *Snapshot) Count(prefix, from string) (n int64, err error) {
	err = p.Ascend(prefix, from, func(*Item) bool { n++; return true })
	return n, err
}

// Size is the number and the bytes of the latest values of keys that begin with prefix.
func (s *Store) Size(prefix string) (keys, bytes int64) {
	tree, _ := s.index.snapshot()
	tree.AscendGreaterOrEqual(entry{key: prefix}, func(e entry) bool {
		if len(e.key) < len(prefix) || e.key[:len(prefix)] != prefix {
			return false
		}
		keys++
		bytes += e.size
		return true
	})
	return keys, bytes
}

// Replay calls visit with the events after a revision and up to another (0: the current one), in order, until it
// returns false. Values are read from disk; wanted, when not nil, chooses the keys whose events matter. It returns the
// revision up to which everything was seen. Error: *CompactedError when after is below the compacted revision.
func (s *Store) Replay(after, through uint64, wanted func(key string) bool, visit func(*Event) bool) (seen uint64, err error) {
	current := s.index.current()
	if through == 0 || through > current {
		through = current
	}
	if err := s.enter(); err != nil {
		return after, err
	}
	defer s.leave()
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceHistory}})
	defer it.Close()
	if compacted := s.compacted.Load(); after < compacted {
		return after, &CompactedError{Requested: after, Compacted: compacted}
	}
	seen = after
	for it.Seek(historyKey(after + 1)); it.Valid() && seen < through; it.Next() {
		var first uint64
		var changes []change
		err := it.Item().Value(func(b []byte) (err error) {
			first, changes, err = decodeGroup(b)
			return err
		})
		if err != nil {
			return seen, err
		}
		for i, c := range changes {
			revision := first + uint64(i)
			if revision <= after {
				continue
			}
			if revision > through {
				return seen, nil
			}
			if c.kind == Void || wanted != nil && !wanted(c.key) {
				seen = revision
				continue
			}
			e := &Event{Revision: revision, Type: c.kind, Key: c.key, PreviousRevision: c.previous}
			if c.kind != Deleted {
				if e.Value, err = s.valueOf(c.key, revision); err != nil {
					return seen, err
				}
			}
			seen = revision
			if !visit(e) {
				return seen, nil
			}
		}
	}
	return through, nil
}

// valueOf reads the value that a commit wrote.
func (s *Store) valueOf(key string, revision uint64) ([]byte, error) {
	txn := s.db.NewTransactionAt(revision, false)
	defer txn.Discard()
	item, err := txn.Get(dataKey(key))
	if err == nil && item.Version() == revision {
		kv, err := itemKV(key, item)
		return kv.Value, err
	}
	if compacted := s.compacted.Load(); revision <= compacted {
		return nil, &CompactedError{Requested: revision, Compacted: compacted}
	}
	if err == nil {
		err = errCorrupt
	}
	return nil, fmt.Errorf("value of key %q at revision %d: %w", key, revision, err)
}
