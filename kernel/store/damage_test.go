package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// ledger is what a store has acknowledged: the events by revision, and where the last one, which a damaged log may
// take for unacknowledged, begins.
type ledger struct {
	events   map[uint64]Event
	current  uint64
	sentinel uint64
}

// specimen is a store's directory with several tables, a value log and, when crashed, logs of a killed process.
type specimen struct {
	dir    string
	ledger ledger
	files  []string
}

var (
	specimens     [2]*specimen
	specimensOnce sync.Once
	specimensErr  error
	specimensDir  string
)

func damageConfig(dir string) Config {
	return Config{Dir: dir, MemTableBytes: 4 << 20, MinFreeBytes: -1, Retention: -1, MaxHistory: -1,
		Dictionaries: map[string][]byte{"/k/": byText["/a/"]}}
}

// memoryDir is a directory in memory, where there is one, for tests that open many stores and prove nothing of syncs.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pintle-store-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// specimenOf gives the specimen that was closed in order, or the one that was killed. They are made once.
func specimenOf(t testing.TB, crashed bool) *specimen {
	t.Helper()
	specimensOnce.Do(func() {
		if specimensDir, specimensErr = os.MkdirTemp("/dev/shm", "pintle-specimens-*"); specimensErr != nil {
			specimensDir, specimensErr = os.MkdirTemp("", "pintle-specimens-*")
		}
		if specimensErr != nil {
			return
		}
		specimensErr = makeSpecimens(t)
	})
	if specimensErr != nil {
		t.Fatal(specimensErr)
	}
	if crashed {
		return specimens[1]
	}
	return specimens[0]
}

func makeSpecimens(t testing.TB) error {
	live := filepath.Join(specimensDir, "closed")
	rng := rand.New(rand.NewPCG(1, 2))
	l := ledger{events: map[uint64]Event{}}
	write := func(s *Store, n int) {
		for range n {
			key := fmt.Sprintf("/k/%02d", rng.IntN(60))
			revision, _ := s.Stat(key)
			w := Write{Key: key, Expect: AnyRevision}
			if revision != 0 && rng.IntN(4) == 0 {
				w.Delete = true
			} else {
				w.Value = make([]byte, rng.IntN(3000))
				if rng.IntN(25) == 0 {
					w.Value = make([]byte, 300<<10)
				}
				for i := range w.Value {
					w.Value[i] = byte(rng.Uint32())
				}
				if rng.IntN(2) == 0 { // packed
					copy(w.Value, alike(rng.IntN(9)))
				}
			}
			var err error
			if revision, err = s.Commit(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
	}
	note := func(s *Store) {
		if _, err := s.Replay(l.current, 0, nil, func(e *Event) bool { l.events[e.Revision] = *e; return true }); err != nil {
			t.Fatal(err)
		}
		l.current = s.CurrentRevision()
	}
	l.current = 1
	for round := range 3 {
		s, stop := running(t, damageConfig(live))
		write(s, 60)
		if round == 2 {
			write(s, 60)
			// As a killed process leaves it: the logs are there.
			crashed := filepath.Join(specimensDir, "crashed")
			sentinel := s.CurrentRevision() + 1
			put(t, s, "/sentinel", "the last group")
			note(s)
			if err := copyDir(live, crashed); err != nil {
				return err
			}
			c := l
			c.events = maps.Clone(l.events)
			c.sentinel = sentinel
			specimens[1] = &specimen{dir: crashed, ledger: c}
		}
		note(s)
		stop()
	}
	l.sentinel = l.current + 1 // nothing of a closed store may be lost
	specimens[0] = &specimen{dir: live, ledger: l}
	for _, s := range specimens {
		entries, err := os.ReadDir(s.dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			s.files = append(s.files, e.Name())
		}
	}
	return nil
}

// copyDir copies files without their holes.
func copyDir(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == "LOCK" {
			continue
		}
		if err := copySparse(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	for at := int64(0); ; {
		start, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return out.Truncate(info.Size())
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(in.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, start), io.NewSectionReader(in, start, end-start)); err != nil {
			return err
		}
		at = end
	}
}

// what a damage does to a file.
const (
	flipBit = iota
	zeroSector
	truncateFile
	removeFile
	damages
)

func damageFile(path string, what uint8, at uint64) error {
	if what%damages == removeFile {
		return os.Remove(path)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return err
	}
	at %= uint64(info.Size()) * 8
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 512)
	switch offset := int64(at / 8); what % damages {
	case flipBit:
		if _, err := f.ReadAt(b[:1], offset); err != nil {
			return err
		}
		b[0] ^= 1 << (at % 8)
		_, err = f.WriteAt(b[:1], offset)
		return err
	case zeroSector:
		offset &^= 511
		_, err = f.WriteAt(b[:min(512, info.Size()-offset)], offset)
		return err
	default:
		return f.Truncate(offset)
	}
}

// verdict opens a store and compares everything readable with the ledger: what cannot be read must say so. It returns
// the errors met.
func verdict(t testing.TB, dir string, l ledger) (met []error) {
	t.Helper()
	s, err := Open(damageConfig(dir))
	if err != nil {
		return []error{err}
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}()
	excused := func(err error) bool {
		if errors.As(err, new(*CorruptError)) {
			met = append(met, err)
			return true
		}
		return false
	}
	current := s.CurrentRevision()
	if current < l.sentinel-1 {
		t.Errorf("opened at revision %d, %d was acknowledged", current, l.sentinel-1)
		return met
	}
	top := min(current, l.current)
	state := map[string]uint64{}
	former := map[string]uint64{}
	at := top / 2
	for revision := uint64(2); revision <= top; revision++ {
		e, ok := l.events[revision]
		switch {
		case !ok:
		case e.Type == Deleted:
			delete(state, e.Key)
		default:
			state[e.Key] = revision
		}
		if revision == at {
			former = maps.Clone(state)
		}
	}
	got := map[uint64]bool{}
	if _, err := s.Replay(1, 0, nil, func(e *Event) bool {
		want, ok := l.events[e.Revision]
		if !ok || e.Key != want.Key || e.Type != want.Type || e.PreviousRevision != want.PreviousRevision || !bytes.Equal(e.Value, want.Value) {
			t.Errorf("replay serves %d %s %s, acknowledged was %s %s", e.Revision, e.Type, e.Key, want.Type, want.Key)
		}
		got[e.Revision] = true
		return true
	}); err != nil {
		if !excused(err) {
			t.Errorf("replay: %v", err)
		}
	} else {
		for revision := range l.events {
			if revision <= top && revision < l.sentinel && !got[revision] {
				t.Errorf("replay misses revision %d and does not say so", revision)
			}
		}
	}
	for key, revision := range state {
		kv, _, err := s.Get(key)
		switch {
		case err != nil && !excused(err):
			t.Errorf("%s: %v", key, err)
		case err == nil && (kv.Revision != revision || !bytes.Equal(kv.Value, l.events[revision].Value)):
			t.Errorf("%s: served revision %d, acknowledged was %d", key, kv.Revision, revision)
		}
	}
	compare := func(at uint64, want map[string]uint64) {
		p, err := s.Snapshot(at)
		if err != nil {
			t.Errorf("snapshot at %d: %v", at, err)
			return
		}
		seen := map[string]uint64{}
		bad := false
		err = p.Ascend("/", "", func(i *Item) bool {
			kv, err := i.Load()
			switch {
			case err != nil && !excused(err):
				t.Errorf("%s at %d: %v", i.Key, at, err)
			case err == nil && !bytes.Equal(kv.Value, l.events[kv.Revision].Value):
				t.Errorf("%s at %d: served another value than revision %d had", i.Key, at, kv.Revision)
			}
			bad = bad || err != nil
			seen[i.Key] = i.Revision
			return true
		})
		if err != nil && !excused(err) {
			t.Errorf("state at %d: %v", at, err)
		}
		if err == nil && !bad && !maps.Equal(seen, want) {
			t.Errorf("state at %d: %d keys, want %d", at, len(seen), len(want))
		}
	}
	compare(0, state)
	compare(at, former)
	return met
}

func TestUndamagedSpecimens(t *testing.T) {
	for _, crashed := range []bool{false, true} {
		sp := specimenOf(t, crashed)
		dir := filepath.Join(memoryDir(t), "copy")
		if err := copyDir(sp.dir, dir); err != nil {
			t.Fatal(err)
		}
		for _, err := range verdict(t, dir, sp.ledger) {
			t.Errorf("crashed %v: %v", crashed, err)
		}
		tables, _ := filepath.Glob(filepath.Join(sp.dir, "*.sst"))
		logs, _ := filepath.Glob(filepath.Join(sp.dir, "*.mem"))
		values, _ := filepath.Glob(filepath.Join(sp.dir, "*.vlog"))
		if len(tables) < 2 || len(values) < 2 || crashed && len(logs) == 0 {
			t.Errorf("crashed %v: %v lacks a kind of file", crashed, sp.files)
		}
	}
}

// FuzzRecovery damages one place of one file. The store must open to an error that names the damage, or to a state in
// which everything acknowledged is served as it was or refused with a *CorruptError.
func FuzzRecovery(f *testing.F) {
	rng := rand.New(rand.NewPCG(3, 4))
	for file := range 12 {
		for what := range damages {
			f.Add(file%2 == 0, uint8(file), uint8(what), rng.Uint64()>>20)
		}
	}
	f.Fuzz(func(t *testing.T, crashed bool, file, what uint8, at uint64) {
		sp := specimenOf(t, crashed)
		name := sp.files[int(file)%len(sp.files)]
		dir := filepath.Join(memoryDir(t), "copy")
		if err := copyDir(sp.dir, dir); err != nil {
			t.Fatal(err)
		}
		if err := damageFile(filepath.Join(dir, name), what, at); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, err := range verdict(t, dir, sp.ledger) {
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("%s damaged: %v does not name the directory", name, err)
			}
		}
	})
}

// Flipped bits in tables and value logs are found, and the report names file, key and revision.
func TestDamageIsReportedWithWhatItTouches(t *testing.T) {
	for _, tt := range []struct {
		name, pattern string
		opens         bool // a damaged table is refused at once, a value when it is read
	}{{"table", "*.sst", false}, {"value log", "*.vlog", false}} {
		t.Run(tt.name, func(t *testing.T) {
			sp := specimenOf(t, false)
			dir := filepath.Join(memoryDir(t), "copy")
			if err := copyDir(sp.dir, dir); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(dir, tt.pattern))
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			slices.Sort(files)
			var met []error
			for bit := uint64(20000 * 8); len(met) == 0 && bit < 400000*8; bit += 100000 * 8 {
				if err := damageFile(files[0], flipBit, bit); err != nil {
					t.Fatal(err)
				}
				met = verdict(t, dir, sp.ledger)
			}
			if len(met) == 0 {
				t.Fatal("no damage was found")
			}
			var corrupt *CorruptError
			if !errors.As(met[0], &corrupt) || corrupt.File != filepath.Base(files[0]) {
				t.Fatalf("%v does not name %s", met[0], files[0])
			}
			if tt.name == "value log" && (corrupt.Key == "" || corrupt.Revision == 0) {
				t.Errorf("%v names no key and revision", met[0])
			}
		})
	}
}

// A table that is damaged while the store runs: what it holds is refused, not served older or left out.
func TestDamageAtRunTime(t *testing.T) {
	sp := specimenOf(t, false)
	dir := filepath.Join(memoryDir(t), "copy")
	if err := copyDir(sp.dir, dir); err != nil {
		t.Fatal(err)
	}
	s, err := Open(damageConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	files, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		// Each block somewhere, but not the index at the end.
		for at := int64(100); at < info.Size()/2; at += 4096 {
			if err := damageFile(file, flipBit, uint64(at)*8); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused, served := 0, 0
	p, err := s.Snapshot(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ascend("/", "", func(i *Item) bool {
		kv, _, err := s.Get(i.Key)
		var corrupt *CorruptError
		switch {
		case errors.As(err, &corrupt):
			refused++
			if corrupt.Key != i.Key || corrupt.Revision != i.Revision || !strings.HasSuffix(corrupt.File, ".sst") {
				t.Errorf("%s at %d: %v", i.Key, i.Revision, err)
			}
		case err != nil:
			t.Errorf("%s: %v", i.Key, err)
		default:
			served++
			if want := sp.ledger.events[i.Revision]; kv.Revision != i.Revision || !bytes.Equal(kv.Value, want.Value) {
				t.Errorf("%s at %d: served revision %d", i.Key, i.Revision, kv.Revision)
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if refused == 0 || served == 0 {
		t.Errorf("%d refused, %d served: the test wants some of both", refused, served)
	}
	p, err = s.Snapshot(sp.ledger.current - 5)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Count("/", ""); !errors.As(err, new(*CorruptError)) {
		t.Errorf("a former state of %d keys, %v, over damaged tables", n, err)
	}
	if _, err := s.Replay(1, 0, nil, func(*Event) bool { return true }); !errors.As(err, new(*CorruptError)) {
		t.Errorf("a replay over damaged tables: %v", err)
	}
}

// What verifying costs a read of a value from a table.
func BenchmarkGet(b *testing.B) {
	dir := b.TempDir()
	const keys = 20000
	s, stop := running(b, Config{Dir: dir})
	value := bytes.Repeat([]byte("v"), 1024)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < keys; i += 64 {
				put(b, s, fmt.Sprintf("/registry/pods/ns/%09d", i), string(value))
			}
		})
	}
	wg.Wait()
	stop()
	s, _ = running(b, Config{Dir: dir})
	rng := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, _, err := s.Get(fmt.Sprintf("/registry/pods/ns/%09d", rng.IntN(keys))); err != nil {
			b.Fatal(err)
		}
	}
}

// Reading a directory with so many tables that a kernel would compact them leaves the tables as they are.
func TestReadingCompactsNothing(t *testing.T) {
	cfg := damageConfig(filepath.Join(memoryDir(t), "data"))
	// Tables pile up in level 0, as they do before a kernel is killed.
	piling := cfg
	piling.tune = func(o badger.Options) badger.Options { return o.WithNumCompactors(0) }
	for i := range 8 {
		s, stop := running(t, piling)
		put(t, s, "/a", strings.Repeat(fmt.Sprint(i), 1000))
		stop()
	}
	sizes := func() (out string) {
		files, err := filepath.Glob(filepath.Join(cfg.Dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			out += fmt.Sprint(filepath.Base(file), ":", info.Size(), " ")
		}
		return out
	}
	before := sizes()
	s, closeStore, err := OpenReading(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if n := s.db.Opts().NumCompactors; n != 0 {
		t.Errorf("reading with %d compactors", n)
	}
	if err := closeStore(); err != nil {
		t.Fatal(err)
	}
	equal(t, "tables", sizes(), before)
	if s, err = Open(cfg); err != nil {
		t.Fatalf("opening afterwards: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
