package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_TEST_CRASH_DIR"); dir != "" {
		writeUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(specimensDir)
		os.Exit(code)
	}), // Badger leaves these when it fails to open.
		goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"),
		goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// running opens and runs a store; stop ends it in order.
func running(t testing.TB, cfg Config) (s *Store, stop func()) {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.MinFreeBytes == 0 {
		cfg.MinFreeBytes = -1
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return s, stop
}

func put(t testing.TB, s *Store, key, value string) uint64 {
	t.Helper()
	revision, err := s.Commit(context.Background(), Write{Key: key, Value: []byte(value), Expect: AnyRevision})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return revision
}

func remove(t testing.TB, s *Store, key string) uint64 {
	t.Helper()
	revision, err := s.Commit(context.Background(), Write{Key: key, Delete: true, Expect: AnyRevision})
	if err != nil {
		t.Fatalf("delete %s: %v", key, err)
	}
	return revision
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// list renders the keys, values and revisions of a prefix at a revision.
func list(t testing.TB, s *Store, prefix string, at uint64) string {
	t.Helper()
	p, err := s.Snapshot(at)
	if err != nil {
		t.Fatalf("snapshot at %d: %v", at, err)
	}
	var out []string
	err = p.Ascend(prefix, "", func(i *Item) bool {
		kv, err := i.Load()
		if err != nil {
			t.Errorf("loading %s at %d: %v", i.Key, at, err)
		}
		if kv.Revision != i.Revision {
			t.Errorf("%s at %d: item of revision %d has a value of %d", i.Key, at, i.Revision, kv.Revision)
		}
		out = append(out, fmt.Sprintf("%s=%s@%d", i.Key, kv.Value, i.Revision))
		return true
	})
	if err != nil {
		t.Fatalf("listing at %d: %v", at, err)
	}
	return strings.Join(out, " ")
}

func replay(t testing.TB, s *Store, after uint64) string {
	t.Helper()
	var out []string
	_, err := s.Replay(after, 0, nil, func(e *Event) bool {
		out = append(out, fmt.Sprintf("%d:%s:%s=%s<%d", e.Revision, e.Type, e.Key, e.Value, e.PreviousRevision))
		return true
	})
	if err != nil {
		t.Fatalf("replay after %d: %v", after, err)
	}
	return strings.Join(out, " ")
}

func equal(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func TestRevisionsHistoryAndRestart(t *testing.T) {
	dir := t.TempDir()
	s, stop := running(t, Config{Dir: dir})
	if got := s.CurrentRevision(); got != 1 {
		t.Fatalf("an empty store is at %d", got)
	}
	put(t, s, "/a", "1")
	put(t, s, "/b", "2")
	put(t, s, "/a", "3")
	remove(t, s, "/b")
	put(t, s, "/c/d", "4")
	check := func(s *Store) {
		t.Helper()
		equal(t, "now", list(t, s, "/", 0), "/a=3@4 /c/d=4@6")
		equal(t, "at 2", list(t, s, "/", 2), "/a=1@2")
		equal(t, "at 3", list(t, s, "/", 3), "/a=1@2 /b=2@3")
		equal(t, "at 4", list(t, s, "/", 4), "/a=3@4 /b=2@3")
		equal(t, "at 5", list(t, s, "/", 5), "/a=3@4")
		equal(t, "prefix", list(t, s, "/c/", 0), "/c/d=4@6")
		equal(t, "events", replay(t, s, 1),
			"2:created:/a=1<0 3:created:/b=2<0 4:updated:/a=3<2 5:deleted:/b=<3 6:created:/c/d=4<0")
		equal(t, "events after 4", replay(t, s, 4), "5:deleted:/b=<3 6:created:/c/d=4<0")
		if kv, err := s.GetAt("/b", 4); err != nil || string(kv.Value) != "2" || kv.Revision != 3 {
			t.Errorf("/b at 4: %+v, %v", kv, err)
		}
		if _, _, err := s.Get("/b"); !errors.Is(err, ErrKeyNotFound) {
			t.Errorf("/b: %v", err)
		}
		var future *FutureRevisionError
		if _, err := s.Snapshot(7); !errors.As(err, &future) || future.Current != 6 {
			t.Errorf("snapshot at 7: %v", err)
		}
	}
	check(s)
	stop()
	s, _ = running(t, Config{Dir: dir})
	check(s)
	if got := put(t, s, "/e", "5"); got != 7 {
		t.Errorf("first revision after the restart: %d", got)
	}
}

func TestCompareAndSwap(t *testing.T) {
	s, _ := running(t, Config{})
	at := put(t, s, "/k", "v")
	for _, tt := range []struct {
		name    string
		write   Write
		current uint64
	}{
		{"create of what exists", Write{Key: "/k", Value: []byte("x")}, at},
		{"update of another revision", Write{Key: "/k", Value: []byte("x"), Expect: at + 7}, at},
		{"delete of another revision", Write{Key: "/k", Delete: true, Expect: at - 1}, at},
		{"update of nothing", Write{Key: "/none", Value: []byte("x"), Expect: at}, 0},
		{"delete of nothing", Write{Key: "/none", Delete: true, Expect: AnyRevision}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := s.CurrentRevision()
			var conflict *ConflictError
			if _, err := s.Commit(t.Context(), tt.write); !errors.As(err, &conflict) || conflict.Current != tt.current {
				t.Errorf("got %v", err)
			}
			if s.CurrentRevision() != before {
				t.Error("a refused write took a revision")
			}
		})
	}
	if _, err := s.Commit(t.Context(), Write{Key: "/k", Value: []byte("w"), Expect: at}); err != nil {
		t.Error(err)
	}
	var large *TooLargeError
	if _, err := s.Commit(t.Context(), Write{Key: "/big", Value: make([]byte, 4<<20)}); !errors.As(err, &large) {
		t.Errorf("a value of 4 MiB: %v", err)
	}
}

// Of many writers that add one to a counter by compare-and-swap, none loses its addition; revisions have no gap, each
// event is published once and in order, and one that depends on another may be in the same group.
func TestConcurrentWriters(t *testing.T) {
	s, err := Open(Config{Dir: t.TempDir(), MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	var published []uint64
	s.OnCommit(func(events []*Event) {
		for _, e := range events {
			published = append(published, e.Revision)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	const writers, additions = 16, 20
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for done := 0; done < additions; {
				var n int
				kv, _, err := s.Get("/n")
				if err == nil {
					n, _ = strconv.Atoi(string(kv.Value))
				} else if !errors.Is(err, ErrKeyNotFound) {
					t.Error(err)
					return
				}
				_, err = s.Commit(ctx, Write{Key: "/n", Value: []byte(strconv.Itoa(n + 1)), Expect: kv.Revision})
				if err == nil {
					done++
				} else if !errors.As(err, new(*ConflictError)) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	kv, current, err := s.Get("/n")
	if err != nil || string(kv.Value) != strconv.Itoa(writers*additions) || current != writers*additions+1 {
		t.Errorf("counter %s at revision %d, %v", kv.Value, current, err)
	}
	cancel()
	if err := errors.Join(<-done, s.Close()); err != nil {
		t.Error(err)
	}
	for i, revision := range published {
		if revision != uint64(i+2) {
			t.Fatalf("event %d has revision %d", i, revision)
		}
	}
	if len(published) != writers*additions {
		t.Errorf("%d events", len(published))
	}
}

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	s, stop := running(t, Config{Dir: dir})
	for i := range 5 {
		put(t, s, "/a", strconv.Itoa(i)) // 2 to 6
	}
	put(t, s, "/b", "b") // 7
	remove(t, s, "/b")   // 8
	if err := s.Compact(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	check := func(s *Store) {
		t.Helper()
		var compacted *CompactedError
		if _, err := s.Snapshot(4); !errors.As(err, &compacted) || compacted.Compacted != 5 {
			t.Errorf("snapshot at 4: %v", err)
		}
		if _, err := s.GetAt("/a", 3); !errors.As(err, &compacted) {
			t.Errorf("/a at 3: %v", err)
		}
		if _, err := s.Replay(4, 0, nil, func(*Event) bool { return true }); !errors.As(err, &compacted) {
			t.Errorf("replay after 4: %v", err)
		}
		equal(t, "at 5", list(t, s, "/", 5), "/a=3@5")
		equal(t, "at 7", list(t, s, "/", 7), "/a=4@6 /b=b@7")
		equal(t, "replay", replay(t, s, 5), "6:updated:/a=4<5 7:created:/b=b<0 8:deleted:/b=<7")
	}
	check(s)
	if err := s.Compact(t.Context(), 3); err != nil || s.CompactedRevision() != 5 {
		t.Errorf("compacting back: %v, at %d", err, s.CompactedRevision())
	}
	if err := s.Compact(t.Context(), 99); !errors.As(err, new(*FutureRevisionError)) {
		t.Errorf("compacting the future: %v", err)
	}
	stop()
	s, stop = running(t, Config{Dir: dir})
	check(s)
	// All history may go; the current revision stays known.
	if err := s.Compact(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	stop()
	s, _ = running(t, Config{Dir: dir})
	if s.CurrentRevision() != 8 {
		t.Errorf("at %d after compacting all", s.CurrentRevision())
	}
	equal(t, "live", list(t, s, "/", 0), "/a=4@6")
	if keys, err := s.historyKeys(100); err != nil || len(keys) != 1 {
		t.Errorf("%d history entries left, %v", len(keys), err)
	}
}

func TestCompactionByCount(t *testing.T) {
	s, _ := running(t, Config{MaxHistory: 10, Retention: time.Second})
	for i := range 30 {
		put(t, s, "/a", strconv.Itoa(i))
	}
	eventually(t, "compaction", func() bool { return s.CompactedRevision() >= 21 })
}

func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	s, stop := running(t, Config{Dir: dir})
	ctx := t.Context()
	const ttl = 5 // longer than these writes and the look take
	for _, key := range []string{"/short", "/kept"} {
		if _, err := s.Commit(ctx, Write{Key: key, Value: []byte("x"), TTL: ttl}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "/kept", "y") // without a time to live
	if kv, _, err := s.Get("/short"); err != nil || string(kv.Value) != "x" || kv.Expires == 0 {
		t.Errorf("/short: %+v, %v", kv, err)
	}
	eventually(t, "expiry of /short", func() bool { _, _, err := s.Get("/short"); return errors.Is(err, ErrKeyNotFound) })
	equal(t, "the expiry is an event", replay(t, s, 4), "5:deleted:/short=<2")
	if _, err := s.Commit(ctx, Write{Key: "/long", Value: []byte("x"), TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	stop()
	s, _ = running(t, Config{Dir: dir}) // what is to expire is known after a restart
	eventually(t, "expiry of /long", func() bool { _, _, err := s.Get("/long"); return errors.Is(err, ErrKeyNotFound) })
	if kv, _, err := s.Get("/kept"); err != nil || string(kv.Value) != "y" {
		t.Errorf("/kept: %+v, %v", kv, err)
	}
}

func TestSecondStoreIsRefusedWithThePID(t *testing.T) {
	dir := t.TempDir()
	running(t, Config{Dir: dir})
	var locked *LockedError
	if _, err := Open(Config{Dir: dir, MinFreeBytes: -1}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("got %v", err)
	} else if !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("message %q does not name the process", err)
	}
}

func TestFullAndReadOnlyDisk(t *testing.T) {
	var free atomic.Uint64
	var readOnly atomic.Bool
	free.Store(1 << 30)
	var log strings.Builder // the writer's alone until the store has ended: nothing else has anything to say here
	s, _ := running(t, Config{MinFreeBytes: 100 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil)), diskUsage: func(string) (uint64, bool, error) {
		return free.Load(), readOnly.Load(), nil
	}})
	put(t, s, "/a", "1")
	for _, tt := range []struct {
		name     string
		free     uint64
		readOnly bool
		words    string
	}{
		{"full", 80 << 20, false, "no space left"},
		{"read-only", 1 << 30, true, "read-only file system"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			free.Store(tt.free)
			readOnly.Store(tt.readOnly)
			var disk *DiskError
			_, err := s.Commit(t.Context(), Write{Key: "/b", Value: []byte("2")})
			if !errors.As(err, &disk) || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("a write: %v", err)
			}
			if _, err := s.Commit(t.Context(), Write{Key: "/c", Value: []byte("2")}); !errors.As(err, &disk) {
				t.Errorf("a second write: %v", err)
			}
			if s.Err() == nil {
				t.Error("the store says it is well")
			}
			if kv, _, err := s.Get("/a"); err != nil || string(kv.Value) != "1" {
				t.Errorf("a read: %v", err)
			}
			free.Store(1 << 30)
			readOnly.Store(false)
			at := put(t, s, "/a", "1")
			if _, err := s.Commit(t.Context(), Write{Key: "/tmp", Value: nil}); err != nil {
				t.Error(err)
			}
			free.Store(80 << 20)
			if _, err := s.Commit(t.Context(), Write{Key: "/tmp", Delete: true, Expect: at + 1}); err != nil {
				t.Errorf("a delete, which makes room: %v", err)
			}
			free.Store(1 << 30)
			said := strings.Split(strings.TrimSpace(log.String()), "\n")
			log.Reset()
			if len(said) != 2 || !strings.Contains(said[0], "level=ERROR msg=\"writes are refused") || !strings.Contains(said[0], tt.words) || !strings.Contains(said[1], "level=INFO msg=\"writes are accepted again\"") {
				t.Errorf("the log says\n%s\nwant one line when writes are refused and one when they are not", strings.Join(said, "\n"))
			}
		})
	}
}

// A group of which a crash left only some entries is undone: its keys have their former content, its revisions are
// void, and what is written afterwards is not shadowed.
func TestTornGroupIsUndone(t *testing.T) {
	dir := t.TempDir()
	s, stop := running(t, Config{Dir: dir})
	put(t, s, "/old", "before")  // 2
	put(t, s, "/gone", "before") // 3
	remove(t, s, "/gone")        // 4
	batch := s.db.NewManagedWriteBatch()
	for revision, key := range map[uint64]string{5: "/old", 7: "/new", 8: "/gone"} {
		if err := batch.SetEntryAt(badger.NewEntry(dataKey(key), []byte("torn")), revision); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.DeleteAt(dataKey("/old"), 6); err != nil {
		t.Fatal(err)
	}
	if err := batch.Flush(); err != nil {
		t.Fatal(err)
	}
	stop()
	for range 2 { // the second start finds nothing to undo
		s, stop = running(t, Config{Dir: dir})
		if s.CurrentRevision() != 8 {
			t.Fatalf("at %d", s.CurrentRevision())
		}
		equal(t, "now", list(t, s, "/", 0), "/old=before@2")
		for at := uint64(4); at <= 8; at++ {
			equal(t, fmt.Sprint("at ", at), list(t, s, "/", at), "/old=before@2")
		}
		equal(t, "events", replay(t, s, 3), "4:deleted:/gone=<3")
		stop()
	}
	s, stop = running(t, Config{Dir: dir})
	if _, err := s.Commit(t.Context(), Write{Key: "/old", Value: []byte("after"), Expect: 2}); err != nil {
		t.Fatal(err)
	}
	equal(t, "events", replay(t, s, 4), "9:updated:/old=after<2")
	// A whole history entry whose data is not all there is torn, too.
	batch = s.db.NewManagedWriteBatch()
	entry := encodeGroup(10, []change{{Created, "/x", 0}, {Created, "/y", 0}})
	if err := errors.Join(batch.SetEntryAt(badger.NewEntry(historyKey(11), entry), 11),
		batch.SetEntryAt(badger.NewEntry(dataKey("/y"), []byte("torn")), 11), batch.Flush()); err != nil {
		t.Fatal(err)
	}
	stop()
	s, _ = running(t, Config{Dir: dir})
	equal(t, "now", list(t, s, "/", 0), "/old=after@9")
	equal(t, "events", replay(t, s, 4), "9:updated:/old=after<2")
	if got := put(t, s, "/x", "1"); got != 12 {
		t.Errorf("next revision %d", got)
	}
}

// The value before an event is read until compaction passes it.
func TestBefore(t *testing.T) {
	s, _ := running(t, Config{})
	put(t, s, "/a", "1") // 2
	put(t, s, "/a", "2") // 3
	remove(t, s, "/a")   // 4
	var events []*Event
	if _, err := s.Replay(1, 0, nil, func(e *Event) bool { events = append(events, e); return true }); err != nil || len(events) != 3 {
		t.Fatal(events, err)
	}
	if _, err := s.Before(events[0]); !errors.Is(err, ErrKeyNotFound) {
		t.Errorf("before the creation: %v", err)
	}
	for i, want := range map[int]string{1: "1", 2: "2"} {
		if kv, err := s.Before(events[i]); err != nil || string(kv.Value) != want {
			t.Errorf("before revision %d: %q, %v", events[i].Revision, kv.Value, err)
		}
	}
	wrong := *events[2]
	wrong.PreviousRevision = 2
	if kv, err := s.Before(&wrong); !errors.As(err, new(*CorruptError)) {
		t.Errorf("another version than the event says: %q, %v", kv.Value, err)
	}
	if err := s.Compact(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Before(events[1]); !errors.As(err, new(*CompactedError)) {
		t.Errorf("before a compacted revision: %v", err)
	}
	if kv, err := s.Before(events[2]); err != nil || string(kv.Value) != "2" {
		t.Errorf("before the delete: %v", err)
	}
}

func TestClosedStore(t *testing.T) {
	s, stop := running(t, Config{})
	put(t, s, "/a", "1")
	stop()
	if _, err := s.Commit(t.Context(), Write{Key: "/b"}); !errors.Is(err, ErrClosed) {
		t.Errorf("a write: %v", err)
	}
	if _, _, err := s.Get("/a"); !errors.Is(err, ErrClosed) {
		t.Errorf("a read: %v", err)
	}
}

// An acknowledged write survives kill -9, three times in a row on the same data.
func TestKill9(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	acknowledged := map[string]uint64{}
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STORE_TEST_CRASH_DIR="+dir, "STORE_TEST_ROUND="+strconv.Itoa(round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines, enough := bufio.NewScanner(out), 400*(round+1)
		n := 0
		for lines.Scan() {
			key, revision, ok := strings.Cut(lines.Text(), " ")
			at, err := strconv.ParseUint(revision, 10, 64)
			if !ok || err != nil {
				continue // cut off by the kill
			}
			acknowledged[key] = at
			if n++; n == enough {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		if n < enough {
			t.Fatalf("round %d: the child acknowledged only %d writes", round, n)
		}
		s, stop := running(t, Config{Dir: dir})
		for key, at := range acknowledged {
			kv, _, err := s.Get(key)
			if err != nil || kv.Revision != at || !strings.HasPrefix(string(kv.Value), key) {
				t.Errorf("round %d: %s acknowledged at %d: %+v, %v", round, key, at, kv.Revision, err)
			}
		}
		// Every revision has its event or is void, and every event its value.
		if _, err := s.Replay(1, 0, nil, func(e *Event) bool {
			return e.Type == Deleted || strings.HasPrefix(string(e.Value), e.Key)
		}); err != nil {
			t.Errorf("round %d: replay: %v", round, err)
		}
		stop()
	}
}

// writeUntilKilled is the child of TestKill9.
func writeUntilKilled(dir string) {
	s, err := Open(Config{Dir: dir, MinFreeBytes: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go s.Run(context.Background())
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("/%s/%d/%d", os.Getenv("STORE_TEST_ROUND"), w, i)
				revision, err := s.Commit(context.Background(), Write{Key: key, Value: []byte(key + strings.Repeat(".", 1000))})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Printf("%s %d\n", key, revision)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 32, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, stop := running(b, Config{})
			value := make([]byte, 1024)
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						if _, err := s.Commit(context.Background(), Write{Key: fmt.Sprintf("/registry/pods/ns/%09d", i), Value: value}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			stop()
		})
	}
}
