package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// interrupted runs collections as a process does that is killed before their end.
func interrupted(t *testing.T, s *Store) (files int) {
	t.Helper()
	for {
		graves, err := s.findBuried()
		if err == nil {
			err = s.noteBuried(graves)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.db.SetDiscardTs(0)
		if err := s.db.RunValueLogGC(0.5); errors.Is(err, badger.ErrNoRewrite) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		files++
	}
}

// collect runs the collection of the value log until there is nothing to collect, and returns how many files went.
func collect(t *testing.T, s *Store) (files int) {
	t.Helper()
	for {
		s.compacting.Lock()
		err := s.collectOnce()
		s.compacting.Unlock()
		if errors.Is(err, badger.ErrNoRewrite) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files++
	}
}

// Deleted keys do not come back after a collection of the value log, wherever the delete was when it ran: in the memory
// table, in a table above the value's, or compacted away (dgraph-io/badger #2286, #2310).
func TestDeletedKeysDoNotComeBack(t *testing.T) {
	const garbage, kept, deleted = 12, 3, 5
	big := func(key string, n int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%s.%d|", key, n)), 40<<10) }
	type arrangement struct {
		name  string
		after func(t *testing.T, s *Store, reopen func() *Store) *Store // between the deletes and the collection
		// late: the deletes are above the compacted revision when the collection runs.
		late, crash bool
	}
	arrangements := []arrangement{
		{name: "the delete is in the memory table", after: func(_ *testing.T, s *Store, _ func() *Store) *Store { return s }},
		{name: "the delete is in a table above the value's", after: func(_ *testing.T, _ *Store, reopen func() *Store) *Store { return reopen() }},
		{name: "the delete is compacted away", after: func(t *testing.T, _ *Store, reopen func() *Store) *Store {
			s := reopen()
			if err := s.db.Flatten(2); err != nil {
				t.Fatal(err)
			}
			return s
		}},
	}
	for _, a := range arrangements {
		late, crash, both := a, a, a
		late.late, crash.crash, both.late, both.crash = true, true, true, true
		late.name += ", and later than the compacted revision"
		crash.name += ", and the collection is interrupted"
		both.name += ", later than the compacted revision, and the collection is interrupted"
		arrangements = append(arrangements, late, crash, both)
	}
	for _, tt := range arrangements {
		t.Run(tt.name, func(t *testing.T) {
			cfg := damageConfig(memoryDir(t))
			var closing bool // whether closing compacts level 0 into the next
			cfg.tune = func(o badger.Options) badger.Options {
				return o.WithValueLogFileSize(1 << 20).WithCompactL0OnClose(closing)
			}
			s, stop := running(t, cfg)
			reopen := func() *Store {
				stop()
				s, stop = running(t, cfg)
				return s
			}
			compact := func() {
				t.Helper()
				if err := s.Compact(t.Context(), s.CurrentRevision()); err != nil {
					t.Fatal(err)
				}
			}
			for i := range garbage {
				put(t, s, fmt.Sprint("/garbage/", i), string(big("garbage", i)))
				if i < kept {
					put(t, s, fmt.Sprint("/kept/", i), string(big("kept", i)))
				}
				if i < deleted {
					put(t, s, fmt.Sprint("/deleted/", i), string(big("deleted", i)))
				}
			}
			// The garbage is overwritten and compacted away, so that the files are worth a collection.
			for i := range garbage {
				put(t, s, fmt.Sprint("/garbage/", i), "small")
			}
			compact()
			closing = true
			s = reopen()
			closing = false
			s = reopen()
			for i := range deleted {
				remove(t, s, fmt.Sprint("/deleted/", i))
			}
			deleted0 := s.CurrentRevision()
			if !tt.late {
				compact()
			}
			s = tt.after(t, s, reopen)
			files := 0
			if tt.crash {
				files = interrupted(t, s)
				s = reopen()
			} else {
				files = collect(t, s)
			}
			if files == 0 {
				t.Fatal("nothing was collected")
			}
			if tt.late {
				// Before the deletes the values are still there.
				kv, err := s.GetAt("/deleted/0", deleted0-deleted)
				if err != nil || !bytes.Equal(kv.Value, big("deleted", 0)) {
					t.Errorf("/deleted/0 before its delete: %v", err)
				}
				if _, err := s.GetAt("/deleted/0", deleted0); !errors.Is(err, ErrKeyNotFound) {
					t.Errorf("/deleted/0 after its delete: %v", err)
				}
				compact()
			}
			// What the collection wrote back meets the delete, or no longer does.
			if err := s.db.Flatten(2); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s = reopen()
				if err := s.db.Flatten(2); err != nil {
					t.Fatal(err)
				}
			}
			for i := range deleted {
				if kv, _, err := s.Get(fmt.Sprint("/deleted/", i)); !errors.Is(err, ErrKeyNotFound) {
					t.Errorf("/deleted/%d came back with revision %d, %v", i, kv.Revision, err)
				}
			}
			for i := range kept {
				if kv, _, err := s.Get(fmt.Sprint("/kept/", i)); err != nil || !bytes.Equal(kv.Value, big("kept", i)) {
					t.Errorf("/kept/%d: %v", i, err)
				}
			}
			for i := range garbage {
				if kv, _, err := s.Get(fmt.Sprint("/garbage/", i)); err != nil || string(kv.Value) != "small" {
					t.Errorf("/garbage/%d: %v", i, err)
				}
			}
			left, _ := filepath.Glob(filepath.Join(cfg.Dir, "*.vlog"))
			t.Log(files, "value logs collected,", len(left), "left")
		})
	}
}
