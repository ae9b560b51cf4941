package store

import (
	"context"
	"fmt"
	"math"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// Compact drops the history up to revision: afterwards neither a read below it nor a replay from below it works. What
// is live stays. It does nothing when that was done already, and goes no further than what a backup under way needs.
// Errors: *FutureRevisionError, *DiskError.
func (s *Store) Compact(ctx context.Context, revision uint64) error {
	s.compacting.Lock()
	defer s.compacting.Unlock()
	current := s.index.current()
	if revision > current {
		return &FutureRevisionError{Requested: revision, Current: current}
	}
	if revision = s.pins.limit(revision); revision <= s.compacted.Load() {
		return nil
	}
	s.meters.compactions.Inc()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.cfg.MinFreeBytes >= 0 {
		if err := s.checkDisk(s.cfg.MinFreeBytes / 2); err != nil {
			if !isShort(err) {
				return err
			}
			// The history's entries are deleted, one a group.
			if err := s.lastRoom(int64(min(revision, current)-s.compacted.Load()) * entryBytes); err != nil {
				return err
			}
		}
	}
	if err := s.writeMeta("compacted", revision, revision); err != nil {
		return s.fail(fmt.Errorf("recording the compacted revision: %w", err))
	}
	s.compacted.Store(revision)
	s.db.SetDiscardTs(revision)
	return s.dropHistory(ctx, revision, current)
}

// dropHistory deletes the history entries of groups that end at or below revision. The newest entry of all stays,
// since it tells the current revision.
func (s *Store) dropHistory(ctx context.Context, revision, current uint64) error {
	const chunk = 1000
	keys, err := s.historyKeys(min(revision, current-1))
	if err != nil {
		return err
	}
	for len(keys) > 0 && ctx.Err() == nil {
		n := min(chunk, len(keys))
		batch := s.db.NewManagedWriteBatch()
		for _, key := range keys[:n] {
			if err := batch.DeleteAt(key, revision); err != nil {
				batch.Cancel()
				return fmt.Errorf("dropping history: %w", err)
			}
		}
		if err := batch.Flush(); err != nil {
			return s.fail(fmt.Errorf("dropping history: %w", err))
		}
		s.reserve.logged.Add(int64(n) * entryBytes)
		keys = keys[n:]
	}
	return ctx.Err()
}

func (s *Store) historyKeys(last uint64) ([][]byte, error) {
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceHistory}})
	defer it.Close()
	var keys [][]byte
	for it.Rewind(); it.Valid(); it.Next() {
		revision, err := parseHistoryKey(it.Item().Key())
		if err != nil {
			return nil, err
		}
		if revision > last {
			break
		}
		keys = append(keys, it.Item().KeyCopy(nil))
	}
	return keys, nil
}

// runCompaction notes the revision now and then, and compacts to the one noted a retention ago, or sooner when there
// are too many.
func (s *Store) runCompaction(ctx context.Context) {
	tick := s.cfg.Retention / historyTicks
	if s.cfg.Retention < 0 {
		tick = 30 * time.Second
	}
	ticker := time.NewTicker(max(tick, minCompactionTick))
	defer ticker.Stop()
	s.ages.note(time.Now(), s.index.current())
	type mark struct {
		at       time.Time
		revision uint64
	}
	var marks []mark
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			current := s.index.current()
			s.ages.note(now, current)
			var target uint64
			if s.cfg.Retention > 0 {
				marks = append(marks, mark{now, current})
				for len(marks) > 0 && now.Sub(marks[0].at) >= s.cfg.Retention {
					target = marks[0].revision
					marks = marks[1:]
				}
			}
			if s.cfg.MaxHistory >= 0 && current > uint64(s.cfg.MaxHistory) {
				target = max(target, current-uint64(s.cfg.MaxHistory))
			}
			if err := s.Compact(ctx, target); err != nil && ctx.Err() == nil {
				s.log.Warn("compaction failed, it is tried again", "revision", target, "error", err)
			}
		}
	}
}
