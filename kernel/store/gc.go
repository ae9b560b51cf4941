package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// Large values are in the value log, of which Badger collects a file by writing what the tables still point to back
// into the memory table, as the same version. When a later delete of such a key is in a table below by then, compaction
// drops both the delete and the value that it hides, and the one written back is live again; that is so in Badger
// 4.9.6, whose remedy for #2310 covers deletes that come while the collection runs. Hence a collection here
//
//   - notes the keys that are deleted and still have a value in the tables (meta "buried"),
//   - lets Badger collect, with compaction kept from dropping anything,
//   - repeats the deletes of those keys, and of those deleted meanwhile, above what was written back,
//   - clears the note.
//
// The next start does the last two steps for a crash in between.
const metaBuried = "buried"

// spaceFlush has one key, which is there to be dropped (see flush).
const spaceFlush = 'z'

// runValueLogGC collects files of the value log of which more than half is garbage.
func (s *Store) runValueLogGC(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.GCInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.checkDisk(s.cfg.MinFreeBytes) != nil {
			continue // see runRelief
		}
		if err := s.collectValueLog(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("collecting the value log failed, it is tried again", "error", err)
		}
	}
}

// garbage is the bytes of the value log that were superseded up to a revision.
type garbage struct {
	revision uint64
	bytes    int64
}

// maxMarks bounds the looks that are remembered.
const maxMarks = 1000

// collectValueLog collects as long as there is a file worth it, and sees to it that garbage is known as such.
func (s *Store) collectValueLog(ctx context.Context) error {
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	// Taken before the revision: what is counted is not above it.
	if bytes := s.superseded.Swap(0); bytes > 0 {
		if n := len(s.garbage); n == maxMarks {
			s.garbage[n-2], s.garbage = garbage{s.garbage[n-1].revision, s.garbage[n-2].bytes + s.garbage[n-1].bytes}, s.garbage[:n-1]
		}
		s.garbage = append(s.garbage, garbage{s.index.current() + uint64(s.cfg.MaxGroup), bytes})
	}
	var bytes int64
	n := 0
	for ; n < len(s.garbage) && s.garbage[n].revision <= s.compacted.Load(); n++ {
		bytes += s.garbage[n].bytes
	}
	full, err := s.valueLogFull()
	if err != nil || !full || n == 0 && s.collected {
		return err
	}
	// Badger knows of garbage only once compaction has dropped what points to it, and values so large fill the value
	// log long before they fill a memory table.
	if bytes >= s.cfg.MaxGarbageBytes {
		if err := s.flush(); err != nil {
			return err
		}
		s.garbage = s.garbage[n:]
	}
	s.collected = true
	return s.collect(ctx, func() float64 {
		if s.checkDisk(s.cfg.MinFreeBytes) != nil {
			return 1 // see runRelief
		}
		return usualGarbage
	})
}

// collect collects all files of which a share is garbage, which is asked for before each; 1 ends it. s.compacting is held,
// so that what is compacted stays.
func (s *Store) collect(ctx context.Context, share func() float64) error {
	before, err := s.findBuried()
	if err != nil {
		return err
	}
	if err := s.noteBuried(before); err != nil {
		return err
	}
	s.db.SetDiscardTs(0)
	defer s.db.SetDiscardTs(s.compacted.Load())
	for err == nil && ctx.Err() == nil {
		least := share()
		if least >= 1 {
			break
		}
		if err = s.db.RunValueLogGC(least); err == nil {
			s.meters.collections.Inc()
		}
	}
	if errors.Is(err, badger.ErrNoRewrite) {
		err = nil
	}
	return errors.Join(err, s.bury(before))
}

// grave is a deleted key and the revision of its delete, or a later one at which it was still deleted.
type grave struct {
	key      string
	revision uint64
}

// valueLogFull says whether there is a file beside the current one.
func (s *Store) valueLogFull() (bool, error) {
	files, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*.vlog"))
	if err != nil {
		return false, err
	}
	n := 0
	for _, file := range files {
		// One without entries has a header.
		if info, err := os.Stat(file); err == nil && info.Size() > valueThreshold(s.cfg) {
			n++
		}
	}
	return n > 1, nil
}

// findBuried gives the deletes that hide a large value in the tables, the next after the value each. Other values may be
// in between: compaction drops them with the delete.
func (s *Store) findBuried() (graves []grave, err error) {
	// Taken first: the delete of what is not in it is in the tables, unless it was dropped for being compacted.
	live, _ := s.index.snapshot()
	compacted := max(s.compacted.Load(), 1)
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceData}, AllVersions: true})
	defer it.Close()
	threshold := valueThreshold(s.cfg)
	err = safely(func() error {
		// last is the oldest delete so far of the key that the iterator, which goes from new to old, is at.
		var last grave
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if last.key != string(item.Key()[1:]) { // no key is empty
				last = grave{key: string(item.Key()[1:])}
				if _, ok := live.Get(entry{key: last.key}); !ok {
					last.revision = compacted // if its delete was dropped; one above is there
				}
			}
			// The size of a value elsewhere is Badger's estimate.
			if item.IsDeletedOrExpired() {
				last.revision = item.Version()
			} else if item.ValueSize() >= threshold-64 && last.revision > item.Version() {
				graves = append(graves, last)
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.damage("", 0, err)
	}
	return graves, nil
}

// noteBuried keeps over a crash that a collection runs, and the keys.
func (s *Store) noteBuried(graves []grave) error {
	return s.put(badger.NewEntry(metaKey(metaBuried), encodeBuried(graves)))
}

// encodeBuried gives the note: byte 1, then for each key uvarint revision, uvarint len(key), key.
func encodeBuried(graves []grave) []byte {
	note := []byte{formatVersion}
	for _, g := range graves {
		note = binary.AppendUvarint(note, g.revision)
		note = binary.AppendUvarint(note, uint64(len(g.key)))
		note = append(note, g.key...)
	}
	return note
}

// readBuried reads the note. running says that there was one.
func (s *Store) readBuried() (graves []grave, running bool, err error) {
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	item, err := txn.Get(metaKey(metaBuried))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	note, err := storedValue(item)
	if err != nil || len(note) == 0 {
		return nil, false, err
	}
	graves, err = decodeBuried(note)
	return graves, true, err
}

// decodeBuried is the reverse of encodeBuried. It takes any input.
func decodeBuried(note []byte) (graves []grave, err error) {
	corrupt := fmt.Errorf("meta %s: %w", metaBuried, errCorrupt)
	if len(note) == 0 || note[0] != formatVersion {
		return nil, corrupt
	}
	for note = note[1:]; len(note) > 0; {
		var g grave
		var size int
		if g.revision, size = binary.Uvarint(note); size <= 0 {
			return nil, corrupt
		}
		note = note[size:]
		n, size := binary.Uvarint(note)
		if size <= 0 || n > uint64(len(note)-size) {
			return nil, corrupt
		}
		g.key = string(note[size : size+int(n)])
		note = note[size+int(n):]
		graves = append(graves, g)
	}
	return graves, nil
}

// put writes an entry of the store's own at the compacted revision.
func (s *Store) put(e *badger.Entry) error {
	batch := s.db.NewManagedWriteBatch()
	defer batch.Cancel()
	if err := batch.SetEntryAt(e, max(s.compacted.Load(), 1)); err != nil {
		return err
	}
	return batch.Flush()
}

// bury repeats the deletes of the noted keys and of those that were deleted since, and clears the note.
func (s *Store) bury(noted []grave) error {
	since, err := s.findBuried()
	if err != nil {
		return err
	}
	if err := s.repeatDeletes(append(noted, since...)); err != nil {
		return err
	}
	return s.put(badger.NewEntry(metaKey(metaBuried), nil))
}

func (s *Store) repeatDeletes(graves []grave) error {
	if len(graves) == 0 {
		return nil
	}
	batch := s.db.NewManagedWriteBatch()
	defer batch.Cancel()
	for _, g := range graves {
		if err := batch.DeleteAt(dataKey(g.key), g.revision); err != nil {
			return err
		}
	}
	if err := batch.Flush(); err != nil {
		return s.fail(fmt.Errorf("repeating deletes: %w", err))
	}
	return nil
}

// flush writes the memory table to level 0 and compacts that. Badger does so by itself when it is full, and otherwise
// on the way of dropping a prefix only; writes wait meanwhile.
func (s *Store) flush() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.put(badger.NewEntry([]byte{spaceFlush}, nil)); err != nil {
		return err
	}
	if err := s.db.DropPrefix([]byte{spaceFlush}); err != nil {
		return s.fail(fmt.Errorf("writing the memory table: %w", err))
	}
	if s.cfg.MinFreeBytes < 0 {
		return nil
	}
	if _, err := s.reserve.ahead(); err != nil {
		return &DiskError{Dir: s.cfg.Dir, Err: fmt.Errorf("reserving room for the log: %w", err)}
	}
	s.reserve.compaction.Store(s.compactionBytes())
	return nil
}

// supersede counts the value that a write replaces or deletes, if it was in the value log.
func (s *Store) supersede(before entry) {
	if before.size >= valueThreshold(s.cfg) {
		s.superseded.Add(before.size)
	}
}
