package store

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

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
	if kv, err = s.getRevision(key, current, e.revision); err == nil {
		return kv, current, nil
	}
	// Compaction may have overtaken the read: the index knows a newer state then.
	if e, current, ok = s.index.get(key); !ok {
		return KV{}, current, ErrKeyNotFound
	}
	kv, err = s.getRevision(key, current, e.revision)
	return kv, current, err
}

// getRevision reads the key's value as of a revision, at which it must be that of the revision want. A table whose
// checksum does not fit is skipped by Badger without a word, so that an older value or none appears instead.
func (s *Store) getRevision(key string, at, want uint64) (KV, error) {
	kv, err := s.getAt(key, at)
	switch {
	case errors.Is(err, ErrKeyNotFound):
		err = errMissing
	case err == nil && kv.Revision != want:
		err = errOther
	case err == nil || errors.Is(err, ErrClosed):
		return kv, err
	}
	if compacted := s.compacted.Load(); at < compacted {
		return KV{}, &CompactedError{Requested: at, Compacted: compacted}
	}
	return KV{}, s.damage(key, want, err)
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

// Before reads the value that an event replaced or deleted. Errors: ErrKeyNotFound when there was none,
// *CompactedError, *CorruptError.
func (s *Store) Before(e *Event) (KV, error) {
	if e.PreviousRevision == 0 {
		return KV{}, ErrKeyNotFound
	}
	kv, err := s.getRevision(e.Key, e.Revision-1, e.PreviousRevision)
	if compacted := s.compacted.Load(); e.Revision-1 < compacted {
		return KV{}, &CompactedError{Requested: e.Revision - 1, Compacted: compacted}
	}
	return kv, err
}

func (s *Store) getAt(key string, revision uint64) (kv KV, err error) {
	if err := s.enter(); err != nil {
		return KV{}, err
	}
	defer s.leave()
	defer s.guard(arm(), key, revision, &err)
	txn := s.db.NewTransactionAt(revision, false)
	defer txn.Discard()
	item, err := txn.Get(dataKey(key))
	if err != nil {
		if errors.Is(err, badger.ErrKeyNotFound) {
			return KV{}, ErrKeyNotFound
		}
		return KV{}, fmt.Errorf("reading key %q: %w", key, err)
	}
	if kv, err = s.itemKV(key, item); isDamage(err) {
		err = s.damage(key, item.Version(), err)
	}
	return kv, err
}

func (s *Store) itemKV(key string, item *badger.Item) (KV, error) {
	stored, err := storedValue(item)
	if err != nil {
		return KV{}, fmt.Errorf("reading the value of key %q: %w", key, err)
	}
	value, revision, expires, err := decodeValue(stored, item.UserMeta(), item.Version())
	if err == nil && item.UserMeta()&markPacked != 0 {
		value, err = s.dictionaries.unpack(value)
	}
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
		var kv KV
		err := safely(func() (err error) {
			kv, err = i.snapshot.store.itemKV(i.Key, i.item)
			return err
		})
		if err != nil {
			err = i.snapshot.store.damage(i.Key, i.Revision, err)
		}
		return kv, err
	}
	return i.snapshot.store.getRevision(i.Key, i.snapshot.revision, i.Revision)
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

func (p *Snapshot) ascendHistory(prefix, from string, visit func(*Item) bool) (err error) {
	s := p.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	// What has not changed since must appear; an iterator ends early, without a word, at a damaged table.
	live, _ := s.index.snapshot()
	unchanged := newCursor(live, prefix, from, p.revision)
	defer unchanged.close()
	txn := s.db.NewTransactionAt(p.revision, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: dataKey(prefix)})
	defer it.Close()
	// The iterator holds the tables it was made with, so compaction matters only up to here.
	if compacted := s.compacted.Load(); compacted > p.revision {
		return &CompactedError{Requested: p.revision, Compacted: compacted}
	}
	for err = safely(func() error { it.Seek(dataKey(from)); return nil }); err == nil && it.Valid(); {
		item := it.Item()
		i := Item{Key: string(item.Key()[1:]), Revision: item.Version(), snapshot: p, item: item}
		if item.UserMeta()&markCopied != 0 {
			kv, err := s.itemKV(i.Key, item)
			if err != nil {
				return err
			}
			i.Revision = kv.Revision
		}
		if missed, ok := unchanged.skipTo(i.Key); ok {
			return s.damage(missed.key, missed.revision, errMissing)
		}
		if !visit(&i) {
			return nil
		}
		err = safely(func() error { it.Next(); return nil })
	}
	if err != nil {
		return s.damage("", p.revision, err)
	}
	if missed, ok := unchanged.skipTo(""); ok {
		return s.damage(missed.key, missed.revision, errMissing)
	}
	return nil
}

// cursor goes through the live keys of a prefix that have not changed since a revision.
type cursor struct {
	next func() (entry, bool)
	stop func()
	at   entry
	ok   bool
}

func newCursor(live *btree.BTreeG[entry], prefix, from string, revision uint64) *cursor {
	c := new(cursor)
	c.next, c.stop = iter.Pull(func(yield func(entry) bool) {
		live.AscendGreaterOrEqual(entry{key: from}, func(e entry) bool {
			return strings.HasPrefix(e.key, prefix) && (e.revision > revision || yield(e))
		})
	})
	c.at, c.ok = c.next()
	return c
}

func (c *cursor) close() { c.stop() }

// skipTo goes past key, "" the end, and returns a key before it, if there is one.
func (c *cursor) skipTo(key string) (missed entry, ok bool) {
	switch {
	case !c.ok || key != "" && c.at.key > key:
		return entry{}, false
	case c.at.key == key:
		c.at, c.ok = c.next()
		return entry{}, false
	}
	return c.at, true
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
	seen = after
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
	broken := func(err error) error {
		// Compaction may have dropped what was to come next.
		if compacted := s.compacted.Load(); seen < compacted {
			return &CompactedError{Requested: seen, Compacted: compacted}
		}
		return s.damage("", seen+1, err)
	}
	for err = safely(func() error { it.Seek(historyKey(after + 1)); return nil }); err == nil && it.Valid() && seen < through; {
		var first uint64
		var changes []change
		err = safely(func() error {
			return it.Item().Value(func(b []byte) (err error) {
				first, changes, err = decodeGroup(b)
				return err
			})
		})
		if err == nil && first > seen+1 {
			err = errGap
		}
		if err != nil {
			return seen, broken(err)
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
		err = safely(func() error { it.Next(); return nil })
	}
	if err == nil && seen < through {
		err = errGap
	}
	if err != nil {
		return seen, broken(err)
	}
	return through, nil
}

// valueOf reads the value that a commit wrote.
func (s *Store) valueOf(key string, revision uint64) (value []byte, err error) {
	defer s.guard(arm(), key, revision, &err)
	txn := s.db.NewTransactionAt(revision, false)
	defer txn.Discard()
	item, err := txn.Get(dataKey(key))
	if err == nil && item.Version() == revision {
		kv, err := s.itemKV(key, item)
		if err == nil {
			return kv.Value, nil
		}
		return nil, s.damage(key, revision, err)
	}
	if compacted := s.compacted.Load(); revision <= compacted {
		return nil, &CompactedError{Requested: revision, Compacted: compacted}
	}
	if err == nil {
		err = errOther
	}
	return nil, s.damage(key, revision, err)
}
