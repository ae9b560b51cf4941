package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"
)

// A database that filled its disk by its own values takes writes again soon after some were deleted, by itself (within
// a minute, where the machine does little else): whichever they are, also when the deletes came before a restart, and
// with the usual retention.
func TestOwnDataDeletedGivesRoomBack(t *testing.T) {
	const size = 900 << 10
	for name, tc := range map[string]struct {
		value   int
		deleted func(i int) bool
		restart bool
	}{
		"the first":                         {size, func(i int) bool { return i < 62 }, false},
		"every third":                       {size, func(i int) bool { return i%3 == 0 }, false},
		"the last":                          {size, func(i int) bool { return i > 60 }, false},
		"every third, before a restart":     {size, func(i int) bool { return i%3 == 0 }, true},
		"small values, the first":           {100 << 10, func(i int) bool { return i < 600 }, false},
		"small values, before a restart":    {100 << 10, func(i int) bool { return i%3 == 0 }, true},
		"values of the tables, every other": {400 << 10, func(i int) bool { return i%2 == 0 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			disk := smallDisk(t, "260m")
			cfg := Config{Dir: filepath.Join(disk, "data"), MinFreeBytes: 64 << 20, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
			s, stop := running(t, cfg)
			n := 0
			key := func(i int) string { return fmt.Sprintf("/k/%05d", i) }
			write := func(i int) error {
				_, err := s.Commit(t.Context(), Write{Key: key(i), Value: bytes.Repeat([]byte{byte(i), byte(i >> 8), 'v', 'w'}, tc.value/4), Expect: AnyRevision})
				return err
			}
			var full *DiskError
			for ; ; n++ {
				if err := write(n); errors.As(err, &full) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
			}
			for i := range n {
				if tc.deleted(i) {
					if _, err := s.Commit(t.Context(), Write{Key: key(i), Delete: true, Expect: AnyRevision}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if tc.restart {
				stop()
				s, _ = running(t, cfg)
			}
			// As much as half of what was deleted fits again.
			deleted := 0
			for i := range n {
				if tc.deleted(i) {
					deleted++
				}
			}
			begin := time.Now()
			for i := n; i < n+deleted/2; i++ {
				for err := write(i); err != nil; err = write(i) {
					if !errors.As(err, new(*DiskError)) || time.Since(begin) > 3*time.Minute {
						st, serr := s.Stats()
						t.Fatalf("after three minutes %d of %d values were taken: %v; %+v %v", i-n, deleted/2, err, st, serr)
					}
					select {
					case <-t.Context().Done():
						t.Fatal(t.Context().Err())
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
			st, err := s.Stats()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d values, refused at %d MiB; %d taken after that, %d MiB free and the value log at %d MiB after %s",
				n, full.Free>>20, deleted/2, st.Disk.Free>>20, st.Disk.ValueLog>>20, time.Since(begin).Round(time.Millisecond))
			for i := range n {
				kv, _, err := s.Get(key(i))
				if tc.deleted(i) != errors.Is(err, ErrKeyNotFound) || err == nil && (len(kv.Value) != tc.value/4*4 || kv.Value[0] != byte(i)) {
					t.Fatalf("%s: %v", key(i), err)
				}
			}
		})
	}
}

// Deletes are taken on a disk that others have filled to the last byte, as is what comes in one group with refused
// writes; the steps that lead to a delete have half the reserve, unless they are used to write more.
func TestDeletesHaveRoom(t *testing.T) {
	disk := smallDisk(t, "256m")
	dir := filepath.Join(disk, "data")
	s, _ := running(t, Config{Dir: dir, MemTableBytes: 4 << 20, MinFreeBytes: 32 << 20, Retention: -1})
	for i := range 40 {
		put(t, s, fmt.Sprint("/k/", i), "value")
	}
	for !s.reserve.spare.Load() {
		select {
		case <-t.Context().Done():
			t.Fatal("no room was laid aside")
		case <-time.After(10 * time.Millisecond):
		}
	}
	step := func(key string, more int) Write {
		return Write{Key: key, Value: bytes.Repeat([]byte("v"), len("value")+more), Expect: AnyRevision, MakesRoom: true}
	}
	remove := func(i int) Write {
		return Write{Key: fmt.Sprint("/k/", i), Delete: true, Expect: AnyRevision}
	}
	refused := func(err error) bool { return errors.As(err, new(*DiskError)) }

	free := fillDisk(t, disk, 24<<20)
	for name, errs := range map[string][]error{
		"a write, a step, a step that writes more, a delete": s.CommitAll(t.Context(), []Write{
			{Key: "/new", Value: []byte("x")}, step("/k/0", 1000), step("/k/1", stepBytes+1), remove(2)}),
	} {
		if !refused(errs[0]) || errs[1] != nil || !refused(errs[2]) || errs[3] != nil {
			t.Errorf("with less than the reserve: %s: %v", name, errs)
		}
	}
	full := fillDisk(t, disk, 0)
	errs := s.CommitAll(t.Context(), []Write{{Key: "/new", Value: []byte("x")}, step("/k/0", 0), remove(3)})
	if !refused(errs[0]) || !refused(errs[1]) || errs[2] != nil {
		t.Errorf("with no byte left: a write, a step, a delete: %v", errs)
	}
	// The log comes to its end, and the next one has its room from the spare file.
	s.reserve.logged.Store(s.cfg.MemTableBytes)
	if _, err := s.Commit(t.Context(), remove(4)); err != nil {
		t.Errorf("a delete at the end of the log: %v", err)
	}
	if s.reserve.spare.Load() {
		t.Error("the spare file is still there")
	}
	if err := s.Compact(t.Context(), s.CurrentRevision()); err != nil {
		t.Errorf("a compaction: %v", err)
	}
	if needed := s.needed(); needed < s.cfg.MinFreeBytes+s.reserve.spareBytes {
		t.Errorf("the room given out is other writes': %d needed", needed)
	}
	full()
	free()
	if _, err := s.Commit(t.Context(), Write{Key: "/new", Value: []byte("x")}); err != nil {
		t.Errorf("with room again: %v", err)
	}
	for i, there := range map[int]bool{0: true, 1: true, 2: false, 3: false, 4: false, 5: true} {
		if _, _, err := s.Get(fmt.Sprint("/k/", i)); there != (err == nil) {
			t.Errorf("/k/%d: %v", i, err)
		}
	}
}

// What others have filled to the last byte is not written to in search of room.
func TestReclaimOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, "160m")
	s, _ := running(t, Config{Dir: filepath.Join(disk, "data"), MemTableBytes: 4 << 20, MinFreeBytes: 8 << 20, Retention: -1})
	put(t, s, "/a", "1")
	free := fillDisk(t, disk, 0)
	defer free()
	if err := s.reserve.release(); err != nil {
		t.Fatal(err)
	}
	defer fillDisk(t, disk, 1<<20)()
	if _, err := s.Reclaim(t.Context()); !errors.As(err, new(*DiskError)) {
		t.Errorf("reclaiming on a full disk: %v", err)
	}
	if kv, _, err := s.Get("/a"); err != nil || string(kv.Value) != "1" {
		t.Error(err)
	}
}
