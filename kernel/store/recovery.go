package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	badger "github.com/dgraph-io/badger/v4"
)

// recoverTorn finds the last complete group, undoes what is above it and returns the current revision.
func (s *Store) recoverTorn() (current uint64, err error) {
	last, first, changes, err := s.lastGroup()
	if err != nil {
		return 0, err
	}
	if last == 0 {
		last = 1 // an empty store
	} else if complete, err := s.groupComplete(first, changes); err != nil {
		return 0, err
	} else if !complete {
		last = first - 1
	}
	top := s.db.MaxVersion()
	if top <= last {
		return last, nil
	}
	s.log.Warn("undoing writes that a crash left unfinished; none of them was acknowledged", "above", last, "up_to", top)
	if err := s.undo(last, top); err != nil {
		return 0, fmt.Errorf("undoing unfinished writes: %w", err)
	}
	return top, nil
}

// checkHistory checks that the groups follow each other without a gap from the compacted revision to the current one.
func (s *Store) checkHistory(current uint64) error {
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceHistory}})
	defer it.Close()
	next := max(s.compacted.Load(), 1) + 1
	for it.Seek(historyKey(next)); it.Valid(); it.Next() {
		last, err := parseHistoryKey(it.Item().Key())
		if err != nil {
			return s.damage("", next, err)
		}
		if err := it.Item().Value(func(b []byte) error { return checkGroup(b, next, last) }); err != nil {
			return s.damage("", next, err)
		}
		next = last + 1
	}
	if next <= current {
		return s.damage("", next, errGap)
	}
	return nil
}

var errGap = errors.New("the history has a gap")

// checkGroup checks that a history entry begins at or below next and ends with last. It reads no changes, so that a
// start stays quick.
func checkGroup(b []byte, next, last uint64) error {
	if len(b) == 0 || b[0] != formatVersion {
		return errCorrupt
	}
	first, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return errCorrupt
	}
	count, m := binary.Uvarint(b[1+n:])
	switch {
	case m <= 0 || first+count-1 != last:
		return fmt.Errorf("history entry %d ends at another revision: %w", last, errCorrupt)
	case first > next:
		return errGap
	}
	return nil
}

// lastGroup returns the history entry with the highest revision, last 0 when there is none.
func (s *Store) lastGroup() (last, first uint64, changes []change, err error) {
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Reverse: true})
	defer it.Close()
	it.Seek(historyKey(math.MaxUint64))
	if !it.ValidForPrefix([]byte{spaceHistory}) {
		return 0, 0, nil, nil
	}
	if last, err = parseHistoryKey(it.Item().Key()); err != nil {
		return 0, 0, nil, err
	}
	err = it.Item().Value(func(b []byte) error {
		first, changes, err = decodeGroup(b)
		return err
	})
	if err == nil && first+uint64(len(changes))-1 != last {
		err = fmt.Errorf("history entry %d: ends at another revision: %w", last, errCorrupt)
	}
	return last, first, changes, err
}

// groupComplete says whether every entry that a history entry lists is on disk.
func (s *Store) groupComplete(first uint64, changes []change) (bool, error) {
	for i, c := range changes {
		if c.kind == Void {
			continue
		}
		found, err := s.hasVersion(dataKey(c.key), first+uint64(i))
		if !found || err != nil {
			return false, err
		}
	}
	return true, nil
}

// hasVersion says whether key has an entry, deleting or not, of exactly this version. A delete that compaction has
// dropped cannot matter: that happens at or below the compacted revision, and groups there were complete.
func (s *Store) hasVersion(key []byte, version uint64) (bool, error) {
	if version <= s.compacted.Load() {
		return true, nil
	}
	txn := s.db.NewTransactionAt(version, false)
	defer txn.Discard()
	it := txn.NewKeyIterator(key, badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	it.Rewind()
	return it.Valid() && it.Item().Version() == version, nil
}

// undo makes the revisions above good and up to top void. Badger cannot take entries back, so each gets the content
// that its key had at good, with a mark that says so, or a delete. The history entry of void revisions comes last:
// until it is durable, the next start undoes again, to the same end.
func (s *Store) undo(good, top uint64) error {
	type orphan struct {
		key     []byte
		version uint64
	}
	var orphans []orphan
	err := func() error {
		txn := s.db.NewTransactionAt(math.MaxUint64, false)
		defer txn.Discard()
		it := txn.NewIterator(badger.IteratorOptions{AllVersions: true, SinceTs: good})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if item := it.Item(); item.Version() > good {
				orphans = append(orphans, orphan{item.KeyCopy(nil), item.Version()})
			}
		}
		return nil
	}()
	if err != nil {
		return err
	}
	batch := s.db.NewManagedWriteBatch()
	defer batch.Cancel()
	for _, o := range orphans {
		var e *badger.Entry
		if o.key[0] == spaceData {
			if e, err = s.copyOf(o.key, good); err != nil {
				return err
			}
		}
		if e == nil {
			err = batch.DeleteAt(o.key, o.version)
		} else {
			err = batch.SetEntryAt(e, o.version)
		}
		if err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return err
	}
	void := make([]change, top-good)
	for i := range void {
		void[i].kind = Void
	}
	last := s.db.NewManagedWriteBatch()
	defer last.Cancel()
	if err := last.SetEntryAt(badger.NewEntry(historyKey(top), encodeGroup(good+1, void)), top); err != nil {
		return err
	}
	return last.Flush()
}

// copyOf returns an entry that repeats the key's content as of a revision, nil when it had none.
func (s *Store) copyOf(key []byte, at uint64) (*badger.Entry, error) {
	txn := s.db.NewTransactionAt(at, false)
	defer txn.Discard()
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stored, err := storedValue(item)
	if err != nil {
		return nil, err
	}
	value, revision, expires, err := decodeValue(stored, item.UserMeta(), item.Version())
	if err != nil {
		return nil, err
	}
	stored, marks := encodeValue(value, expires, revision)
	marks |= item.UserMeta() & markPacked
	return badger.NewEntry(append([]byte(nil), key...), stored).WithMeta(marks), nil
}
