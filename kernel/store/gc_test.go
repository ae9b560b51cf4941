package store

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
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

// valueLogs counts the files of the value log.
func valueLogs(t *testing.T, s *Store) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.cfg.Dir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// collect collects the value log, and returns how many files went.
func collect(t *testing.T, s *Store) (files int) {
	t.Helper()
	before := valueLogs(t, s)
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if err := s.collect(t.Context(), func() float64 { return usualGarbage }); err != nil {
		t.Fatal(err)
	}
	return before - valueLogs(t, s)
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
				if i%2 == 0 {
					put(t, s, fmt.Sprint("/deleted/", i), "small") // which goes with the delete
				}
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
				kv, err := s.GetAt("/deleted/0", deleted0-deleted-(deleted+1)/2)
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
			t.Log(files, "value logs collected,", valueLogs(t, s), "left")
		})
	}
}

// Large values that are rewritten all the time fill no memory table, and take a bounded part of the disk all the same.
func TestGarbageIsBounded(t *testing.T) {
	cfg := damageConfig(memoryDir(t))
	cfg.MaxGarbageBytes = 4 << 20
	cfg.tune = func(o badger.Options) badger.Options { return o.WithValueLogFileSize(1 << 20) }
	s, _ := running(t, cfg)
	value := func(round, i int) string { return fmt.Sprint(round, i) + strings.Repeat("v", 300<<10) }
	const rounds, keys = 30, 5
	var most int64
	for round := range rounds {
		for i := range keys {
			put(t, s, fmt.Sprint("/large/", i), value(round, i))
		}
		if err := s.collectValueLog(t.Context()); err != nil { // notes what was superseded
			t.Fatal(err)
		}
		for range s.cfg.MaxGroup {
			put(t, s, "/small", "x")
		}
		if err := s.Compact(t.Context(), s.CurrentRevision()); err != nil {
			t.Fatal(err)
		}
		if err := s.collectValueLog(t.Context()); err != nil {
			t.Fatal(err)
		}
		use, err := diskUse(cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, use.ValueLog)
	}
	// The live values, the garbage that is let be, what a file of two values may keep alive, and the current file.
	if limit := int64(2*keys*300<<10 + 2*4<<20 + 2<<20); most > limit {
		t.Errorf("the value log took up to %d MiB of %d MiB written, want at most %d", most>>20, rounds*keys*300>>10, limit>>20)
	}
	for i := range keys {
		if kv, _, err := s.Get(fmt.Sprint("/large/", i)); err != nil || string(kv.Value) != value(rounds-1, i) {
			t.Errorf("/large/%d: %v", i, err)
		}
	}
	t.Logf("at most %d MiB of %d MiB written", most>>20, rounds*keys*300>>10)
}

// A key that is made anew while the collection looks is not dead at the compacted revision.
func TestKeyMadeAnewHasNoGrave(t *testing.T) {
	s, _ := running(t, damageConfig(memoryDir(t)))
	large := strings.Repeat("v", 300<<10)
	put(t, s, "/a", large) // 2
	if err := s.Compact(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	remove(t, s, "/a")     // 3
	put(t, s, "/a", large) // 4
	// The index as it was at revision 3.
	s.index.apply([]pending{{entry: entry{key: "/a"}}}, 4)
	graves, err := s.findBuried()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "graves", fmt.Sprint(graves), "[{/a 3}]")
}

// A delete is repeated at its own revision: an earlier one would hide the value where it is still to be seen.
func TestDeletesAreRepeatedWhereTheyWere(t *testing.T) {
	s, _ := running(t, damageConfig(memoryDir(t)))
	large := strings.Repeat("v", 300<<10)
	put(t, s, "/gone", large)        // 2
	put(t, s, "/again", large)       // 3
	put(t, s, "/kept", large)        // 4
	put(t, s, "/overwritten", large) // 5
	put(t, s, "/overwritten", "x")   // 6
	remove(t, s, "/gone")            // 7
	remove(t, s, "/again")           // 8
	put(t, s, "/again", "x")         // 9
	put(t, s, "/small", "x")         // 10
	remove(t, s, "/small")           // 11
	put(t, s, "/between", large)     // 12
	put(t, s, "/between", "x")       // 13
	remove(t, s, "/between")         // 14
	graves, err := s.findBuried()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "graves", fmt.Sprint(graves), "[{/again 8} {/between 14} {/gone 7}]")
	if err := s.repeatDeletes(graves); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[uint64]int{4: 3, 6: 4, 7: 3, 8: 2, 9: 3} {
		p, err := s.Snapshot(at)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := p.Count("/", ""); err != nil || n != int64(want) {
			t.Errorf("at %d: %d keys, want %d, %v", at, n, want, err)
		}
	}
}
