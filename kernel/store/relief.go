package store

import (
	"context"
	"os"
	"path/filepath"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// A database that has filled its disk by its own data gets no room from deletes alone: a deleted value stays in the
// history for the retention, then in the tables until a compaction meets it, then in a file of the value log that is
// not garbage for the most part. Nothing of it happens by itself any more when no writes come, so the store does it:
//
//   - the history gives way (watches that are behind list again);
//   - the memory table is written out and compacted together with all that lies below it;
//   - files of the value log are collected from that share of garbage on for whose rest there is room.

const (
	// reliefInterval is the time between two looks at the disk, and at least between two reliefs; a relief that took
	// long is given reliefRest times as long to rest.
	reliefInterval = 2 * time.Second
	reliefRest     = 4
	// leastGarbage is the share of a file of the value log that is worth a collection when the disk is short.
	leastGarbage = 0.1
	usualGarbage = 0.5
)

// spaceLow has one key, which is below all others: with one above them it makes a compaction of the memory table take
// all of the level below.
const spaceLow = 'a'

// Reclaimed is what Reclaim did.
type Reclaimed struct {
	// Freed is the bytes of disk that the database takes less.
	Freed int64
	// Garbage is the bytes of the value log that nothing live needs and that are still on disk: in files that have
	// too little of it, in the one that is written to, or kept for a backup or for the history.
	Garbage int64
}

// short says whether writes are refused for want of room.
func (s *Store) short() bool {
	return s.cfg.MinFreeBytes >= 0 && isShort(s.checkDisk(s.needed()))
}

// runRelief gives room back when the disk is short and something has changed since the last time.
func (s *Store) runRelief(ctx context.Context) {
	timer := time.NewTimer(reliefInterval)
	defer timer.Stop()
	var done uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := reliefInterval
		if current := s.index.current(); current != done && s.short() {
			begin := time.Now()
			r, err := s.relieve(ctx)
			switch {
			case err == nil:
				// What a backup holds is tried again.
				if s.compacted.Load() >= current {
					done = current
				}
				s.log.Info("the disk is short: history was dropped and garbage collected", "freed_bytes", r.Freed, "still_garbage_bytes", r.Garbage)
			case ctx.Err() == nil:
				s.log.Warn("the disk is short, and making room failed; it is tried again", "error", err)
			}
			next = max(next, reliefRest*time.Since(begin))
		} else if err := s.laySpare(); err != nil {
			s.log.Warn("room to spare for deletes could not be laid aside", "error", err)
		}
		timer.Reset(next)
	}
}

// laySpare lays the spare file where there is ample room, or room for what was given out.
func (s *Store) laySpare() error {
	if s.cfg.MinFreeBytes < 0 || s.reserve.spare.Load() {
		return nil
	}
	enough := s.needed()
	if !s.reserve.released.Load() {
		enough = 2*enough + s.reserve.spareBytes
	}
	if s.checkDisk(enough) != nil {
		return nil
	}
	return s.reserve.lay()
}

// relieve drops the whole history and gives back what that frees.
func (s *Store) relieve(ctx context.Context) (Reclaimed, error) {
	if err := s.Compact(ctx, s.index.current()); err != nil {
		return Reclaimed{}, err
	}
	return s.Reclaim(ctx)
}

// Reclaim gives the room of what is compacted back to the file system, as far as it can be given back now.
func (s *Store) Reclaim(ctx context.Context) (r Reclaimed, err error) {
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if err := s.enter(); err != nil {
		return r, err
	}
	defer s.leave()
	before, err := diskUse(s.cfg.Dir)
	if err != nil {
		return r, err
	}
	if s.fits(s.compactionBytes()) != nil {
		if err := s.reserve.release(); err != nil {
			return r, &DiskError{Dir: s.cfg.Dir, Err: err}
		}
		if err := s.fits(s.compactionBytes()); err != nil {
			return r, err
		}
	}
	// A delete that met its value before it was compacted is in one table with it, which nothing would rewrite.
	if err := s.put(badger.NewEntry([]byte{spaceLow}, nil)); err != nil {
		return r, s.fail(err)
	}
	if err := s.flush(); err != nil {
		return r, err
	}
	s.dropMarks()
	// Deletes in the upper of several levels have yet to meet what they hide.
	if tables := s.lowerTables(); len(tables) > 1 && s.fits(flattenBytes) == nil {
		if err := s.db.Flatten(1); err != nil {
			return r, err
		}
	}
	if err := s.collect(ctx, s.garbageShare); err != nil {
		return r, err
	}
	after, err := diskUse(s.cfg.Dir)
	if err != nil {
		return r, err
	}
	r.Freed = max(before.Total()-after.Total(), 0)
	r.Garbage = max(after.ValueLog-s.largeBytes(), 0)
	return r, nil
}

// flattenBytes bounds what one step of Flatten writes before it frees as much: eight tables and those they overlap.
const flattenBytes = 32 << 20

// fits says whether so much can be written before anything is freed, with a new log beside it.
func (s *Store) fits(bytes int64) error {
	if s.cfg.MinFreeBytes < 0 {
		return nil
	}
	return s.checkDisk(bytes + s.reserve.bytes + s.cfg.MemTableBytes)
}

// compactionBytes is what a compaction of the first two levels writes.
func (s *Store) compactionBytes() (bytes int64) {
	for _, l := range s.db.Levels() {
		if l.Level == 0 || l.IsBaseLevel {
			bytes += l.Size
		}
	}
	return bytes
}

// lowerTables gives the number of tables of the levels that have any.
func (s *Store) lowerTables() (tables []int) {
	for _, l := range s.db.Levels() {
		if l.NumTables > 0 {
			tables = append(tables, l.NumTables)
		}
	}
	return tables
}

// dropMarks forgets the garbage that the tables' compaction has just told Badger of.
func (s *Store) dropMarks() {
	n := 0
	for n < len(s.garbage) && s.garbage[n].revision <= s.compacted.Load() {
		n++
	}
	s.garbage = s.garbage[n:]
}

// garbageShare is the share of a file of the value log that must be garbage for its collection: half when there is
// room, less as long as the disk is short or nearly so, and so much that what is rewritten fits beside it. 1: none does.
func (s *Store) garbageShare() float64 {
	free, readOnly, err := s.cfg.diskUsage(s.cfg.Dir)
	if err != nil || readOnly {
		return 1
	}
	if needed := s.needed(); needed < 0 || free >= uint64(needed+needed/2) {
		return usualGarbage
	}
	room := float64(free) - float64(s.reserve.bytes+s.cfg.MemTableBytes)
	return max(leastGarbage, 1-room/float64(s.largestValueLog()))
}

// largestValueLog is the size of the largest file of the value log.
func (s *Store) largestValueLog() (most int64) {
	most = s.db.Opts().ValueLogFileSize + s.cfg.MaxValueBytes
	files, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*.vlog"))
	if err != nil {
		return most
	}
	for _, file := range files {
		// The one that is written to is longer than what is in it.
		if info, err := os.Stat(file); err == nil && info.Size() < 2*s.db.Opts().ValueLogFileSize {
			most = max(most, info.Size())
		}
	}
	return most
}

// largeBytes is the size of the live values that are in the value log.
func (s *Store) largeBytes() (bytes int64) {
	threshold := valueThreshold(s.cfg)
	s.Each(func(_ string, _ uint64, size int64) {
		if size >= threshold {
			bytes += size
		}
	})
	return bytes
}
