package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// BackupOptions say what a backup holds.
type BackupOptions struct {
	// Incremental takes the changes after Since instead of the state. Store, when not empty, must be this store's id.
	Incremental bool
	Since       uint64
	Store       string
	// History adds to a full backup the changes that the store keeps, so that each of their revisions can be restored
	// and watches resume from them. Without, it holds the current state only.
	History bool
	// Progress is told the records and bytes written so far, a block at a time; may be nil.
	Progress func(records, bytes int64)
}

// OtherStoreError says that an incremental backup was asked for on top of one of another store.
type OtherStoreError struct{ Have, Want string }

func (e *OtherStoreError) Error() string {
	return fmt.Sprintf("the former backup is of store %s, this is store %s (a restored store is a new one): take a full backup", e.Want, e.Have)
}

// pinPatience is how long a reader that takes nothing holds compaction up.
const pinPatience = 2 * time.Minute

// pins are the revisions that compaction must not pass, since they are being read.
type pins struct {
	mu   sync.Mutex
	held map[*pin]struct{}
}

type pin struct {
	revision uint64
	touched  time.Time
}

// hold keeps the history from the compacted revision on, or from revision when that is higher.
func (s *Store) hold(revision uint64) *pin {
	s.compacting.Lock() // else it could be passed between the question and the answer
	defer s.compacting.Unlock()
	p := &pin{revision: max(revision, s.compacted.Load()), touched: time.Now()}
	s.pins.mu.Lock()
	defer s.pins.mu.Unlock()
	if s.pins.held == nil {
		s.pins.held = map[*pin]struct{}{}
	}
	s.pins.held[p] = struct{}{}
	return p
}

func (x *pins) touch(p *pin) {
	x.mu.Lock()
	p.touched = time.Now()
	x.mu.Unlock()
}

func (x *pins) release(p *pin) {
	x.mu.Lock()
	delete(x.held, p)
	x.mu.Unlock()
}

// limit lowers a revision to compact at to what is held.
func (x *pins) limit(revision uint64) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	for p := range x.held {
		if time.Since(p.touched) < pinPatience {
			revision = min(revision, p.revision)
		}
	}
	return revision
}

// Held is the lowest revision that something under way keeps from compaction, 0 when there is none.
func (s *Store) Held() uint64 {
	if r := s.pins.limit(math.MaxUint64); r != math.MaxUint64 {
		return r
	}
	return 0
}

// Backup writes a backup that is consistent at the revision current when it began, while writes go on. It streams:
// its memory is a block. Errors before the first byte: *CompactedError when the changes after Since are gone,
// *FutureRevisionError, *OtherStoreError. An error after it is also told to the reader, as far as w takes it.
func (s *Store) Backup(ctx context.Context, w io.Writer, o BackupOptions) (BackupHeader, BackupEnd, error) {
	var none BackupEnd
	if err := s.enter(); err != nil {
		return BackupHeader{}, none, err
	}
	defer s.leave()
	p := s.hold(o.Since)
	defer s.pins.release(p)
	current := s.index.current()
	h := BackupHeader{Kind: BackupFull, Store: s.ID(), From: current, Revision: current, Created: time.Now().UTC().Truncate(time.Second)}
	switch {
	case o.Incremental:
		switch {
		case o.Store != "" && o.Store != s.ID():
			return h, none, &OtherStoreError{Have: s.ID(), Want: o.Store}
		case o.Since > current:
			return h, none, &FutureRevisionError{Requested: o.Since, Current: current}
		case o.Since < p.revision:
			return h, none, &CompactedError{Requested: o.Since, Compacted: p.revision}
		}
		h.Kind, h.From = BackupIncremental, o.Since
	default:
		if o.History {
			// Below 1 there is nothing, and 1 is the empty store.
			h.From = max(p.revision, 1)
		}
		h.Estimate, _ = s.Size("")
	}
	h.Estimate += int64(h.Revision - h.From)
	var records int64
	b, err := newBackupWriter(w, h, func(total int64) {
		s.pins.touch(p)
		if o.Progress != nil {
			o.Progress(records, total)
		}
	})
	if err != nil {
		return h, none, err
	}
	add := func(r *Record) error {
		records++
		if err := ctx.Err(); err != nil {
			return err
		}
		return b.add(r)
	}
	if h.Kind == BackupFull {
		err = s.eachAt(h.From, func(kv KV) error {
			return add(&Record{State: true, Key: kv.Key, Revision: kv.Revision, Expires: kv.Expires, Value: kv.Value})
		})
	}
	if err == nil {
		err = s.changes(h.From, h.Revision, add)
	}
	if err != nil {
		return h, b.end, errors.Join(err, b.fault(err))
	}
	end, err := b.close()
	return h, end, err
}

// eachAt calls visit with every key that has a value at a revision, in order. The revision must be held.
func (s *Store) eachAt(revision uint64, visit func(KV) error) error {
	txn := s.db.NewTransactionAt(revision, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceData}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		kv, err := s.itemKV(string(it.Item().Key()[1:]), it.Item())
		if err != nil {
			return err
		}
		if err := visit(kv); err != nil {
			return err
		}
	}
	return nil
}

// changes calls visit with every change after a revision and up to another, in order. They must be held.
func (s *Store) changes(after, through uint64, visit func(*Record) error) error {
	return s.groups(after, through, func(revision uint64, c change) error {
		if c.kind == Void {
			return nil
		}
		r := &Record{Type: c.kind, Key: c.key, Revision: revision, Previous: c.previous}
		if c.kind != Deleted {
			kv, err := s.written(c.key, revision)
			if err != nil {
				return err
			}
			r.Value, r.Expires = kv.Value, kv.Expires
		}
		return visit(r)
	})
}

// groups calls visit with what the history says of each revision after one and up to another.
func (s *Store) groups(after, through uint64, visit func(revision uint64, c change) error) error {
	if after >= through {
		return nil
	}
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceHistory}})
	defer it.Close()
	for it.Seek(historyKey(after + 1)); it.Valid(); it.Next() {
		var first uint64
		var changes []change
		err := it.Item().Value(func(b []byte) (err error) {
			first, changes, err = decodeGroup(b)
			return err
		})
		if err != nil {
			return err
		}
		for i, c := range changes {
			revision := first + uint64(i)
			if revision <= after {
				continue
			}
			if revision > through {
				return nil
			}
			if err := visit(revision, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// written reads what the commit of a revision wrote for a key.
func (s *Store) written(key string, revision uint64) (KV, error) {
	txn := s.db.NewTransactionAt(revision, false)
	defer txn.Discard()
	item, err := txn.Get(dataKey(key))
	if err == nil && item.Version() != revision {
		err = errCorrupt
	}
	if err != nil {
		return KV{}, fmt.Errorf("value of key %q at revision %d: %w", key, revision, err)
	}
	return s.itemKV(key, item)
}
