package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// backedUp takes a backup into memory.
func backedUp(t testing.TB, s *Store, o BackupOptions) ([]byte, BackupHeader) {
	t.Helper()
	var b bytes.Buffer
	h, _, err := s.Backup(t.Context(), &b, o)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), h
}

func source(name string, b []byte) BackupSource {
	return BackupSource{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// restored restores into a new directory and runs what came out.
func restored(t testing.TB, o RestoreOptions, sources ...BackupSource) *Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := Restore(t.Context(), Config{Dir: dir, MinFreeBytes: -1}, sources, o); err != nil {
		t.Fatal(err)
	}
	s, _ := running(t, Config{Dir: dir})
	return s
}

func verified(t testing.TB, s *Store) VerifyReport {
	t.Helper()
	report, err := s.Verify(t.Context(), VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Error("verify:", p)
	}
	return report
}

// lively fills a store with creates, updates, deletes, a key that comes again and one that ends.
func lively(t testing.TB, s *Store) {
	t.Helper()
	for i := range 60 {
		key := fmt.Sprintf("/registry/pods/ns/p%02d", i%20)
		if i%7 == 6 {
			if r, _ := s.Stat(key); r != 0 {
				remove(t, s, key)
				continue
			}
		}
		put(t, s, key, fmt.Sprintf("value %d of %s", i, key))
	}
	if _, err := s.Commit(t.Context(), Write{Key: "/registry/events/e", Value: []byte("ends"), TTL: 3600}); err != nil {
		t.Fatal(err)
	}
}

// same compares two stores from a revision on: every state and every change.
func same(t testing.TB, a, b *Store, from uint64) {
	t.Helper()
	if a.CurrentRevision() < b.CurrentRevision() {
		t.Fatalf("revision %d, want at most %d", b.CurrentRevision(), a.CurrentRevision())
	}
	for r := from; r <= b.CurrentRevision(); r++ {
		if got, want := list(t, b, "", r), list(t, a, "", r); got != want {
			t.Fatalf("at revision %d:\n%s\nwant\n%s", r, got, want)
		}
	}
}

// TestBackupAndRestore: everything that a backup holds comes back with its revision, its history and its time to live,
// whether or not it carries the history.
func TestBackupAndRestore(t *testing.T) {
	for _, history := range []bool{true, false} {
		t.Run(fmt.Sprintf("history=%v", history), func(t *testing.T) {
			s, _ := running(t, Config{})
			lively(t, s)
			b, h := backedUp(t, s, BackupOptions{History: history})
			if h.Revision != s.CurrentRevision() {
				t.Errorf("revision %d, want %d", h.Revision, s.CurrentRevision())
			}
			again := restored(t, RestoreOptions{}, source("full", b))
			if again.CurrentRevision() != s.CurrentRevision() {
				t.Errorf("restored at %d, want %d", again.CurrentRevision(), s.CurrentRevision())
			}
			same(t, s, again, max(h.From, 1))
			if history {
				if got, want := replay(t, again, 1), replay(t, s, 1); got != want {
					t.Errorf("history:\n%s\nwant\n%s", got, want)
				}
			} else if _, err := again.GetAt("x", h.Revision-1); !errors.As(err, new(*CompactedError)) {
				t.Errorf("read below the backup: %v", err)
			}
			a, _ := again.GetAt("/registry/events/e", h.Revision)
			w, _ := s.GetAt("/registry/events/e", h.Revision)
			if a.Expires == 0 || a.Expires != w.Expires {
				t.Errorf("ends at %d, want %d", a.Expires, w.Expires)
			}
			if again.ID() == s.ID() {
				t.Error("the restored store has the id of the one it comes from")
			}
			verified(t, again)
			// It goes on from there, and its backups are of its own.
			next := put(t, again, "/registry/pods/ns/p99", "new")
			if next != h.Revision+1 {
				t.Errorf("next revision %d, want %d", next, h.Revision+1)
			}
			if _, _, err := again.Backup(t.Context(), io.Discard, BackupOptions{Incremental: true, Since: h.Revision, Store: h.Store}); !errors.As(err, new(*OtherStoreError)) {
				t.Errorf("incremental backup on one of another store: %v", err)
			}
		})
	}
}

// TestRestoreToRevision: each revision in a chain of a full and incremental backups can be restored, with deletes, and
// with compaction between the backups.
func TestRestoreToRevision(t *testing.T) {
	s, _ := running(t, Config{Retention: -1})
	lively(t, s)
	full, h0 := backedUp(t, s, BackupOptions{})
	states := map[uint64]string{h0.Revision: list(t, s, "", 0)}
	step := func() {
		put(t, s, "/a", fmt.Sprint("a", s.CurrentRevision()))
		states[s.CurrentRevision()] = list(t, s, "", 0)
		remove(t, s, "/registry/pods/ns/p00")
		states[s.CurrentRevision()] = list(t, s, "", 0)
		put(t, s, "/registry/pods/ns/p00", "again")
		states[s.CurrentRevision()] = list(t, s, "", 0)
	}
	step()
	one, h1 := backedUp(t, s, BackupOptions{Incremental: true, Since: h0.Revision, Store: h0.Store})
	if err := s.Compact(t.Context(), h1.Revision); err != nil {
		t.Fatal(err)
	}
	step()
	two, h2 := backedUp(t, s, BackupOptions{Incremental: true, Since: h1.Revision})
	empty, _ := backedUp(t, s, BackupOptions{Incremental: true, Since: h2.Revision})
	chain := []BackupSource{source("full", full), source("one", one), source("two", two), source("empty", empty)}
	for r := h0.Revision; r <= h2.Revision; r++ {
		again := restored(t, RestoreOptions{Revision: r}, chain...)
		if got := list(t, again, "", 0); got != states[r] || again.CurrentRevision() != r {
			t.Fatalf("at %d (%d):\n%s\nwant\n%s", r, again.CurrentRevision(), got, states[r])
		}
		verified(t, again)
	}
	again := restored(t, RestoreOptions{Bump: 1000}, chain...)
	if again.CurrentRevision() != h2.Revision+1000 || again.CompactedRevision() != again.CurrentRevision() {
		t.Errorf("bumped to %d, compacted %d", again.CurrentRevision(), again.CompactedRevision())
	}
	if got := list(t, again, "", 0); got != states[h2.Revision] {
		t.Errorf("bumped:\n%s\nwant\n%s", got, states[h2.Revision])
	}
	if got := put(t, again, "/b", "x"); got != h2.Revision+1001 {
		t.Errorf("next revision %d", got)
	}
	verified(t, again)

	// The base of this one is compacted away.
	_, _, err := s.Backup(t.Context(), io.Discard, BackupOptions{Incremental: true, Since: h0.Revision})
	if !errors.As(err, new(*CompactedError)) {
		t.Errorf("incremental backup from a compacted revision: %v", err)
	}
	_, _, err = s.Backup(t.Context(), io.Discard, BackupOptions{Incremental: true, Since: s.CurrentRevision() + 1})
	if !errors.As(err, new(*FutureRevisionError)) {
		t.Errorf("incremental backup from the future: %v", err)
	}

	other, _ := running(t, Config{})
	put(t, other, "/x", "y")
	foreign, _ := backedUp(t, other, BackupOptions{Incremental: true, Since: 1})
	for name, c := range map[string]struct {
		chain    []BackupSource
		revision uint64
		words    string
	}{
		"no full backup":  {chain[1:], 0, "put the full backup that it builds on before it"},
		"a gap":           {[]BackupSource{chain[0], chain[2]}, 0, "an incremental backup between them is missing"},
		"two full ones":   {[]BackupSource{chain[0], chain[0]}, 0, "second full backup"},
		"of two stores":   {[]BackupSource{chain[0], source("foreign", foreign)}, 0, "it is of store"},
		"after the end":   {chain, h2.Revision + 1, "the backups end at"},
		"before the base": {chain, h0.Revision - 1, "the full backup begins at"},
		"nothing":         {nil, 0, "nothing to restore from"},
	} {
		dir := filepath.Join(t.TempDir(), "store")
		_, err := Restore(t.Context(), Config{Dir: dir, MinFreeBytes: -1}, c.chain, RestoreOptions{Revision: c.revision})
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v; want %q", name, err, c.words)
		}
		nothingLeft(t, dir)
	}
}

func nothingLeft(t testing.TB, dir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
}

// TestDamagedBackup: a backup that was cut off or of which a bit is wrong is refused wherever that is, from a file and
// from a pipe, and leaves nothing behind.
func TestDamagedBackup(t *testing.T) {
	s, _ := running(t, Config{})
	lively(t, s)
	b, _ := backedUp(t, s, BackupOptions{History: true})
	read := func(b []byte) error {
		_, _, err := VerifyBackup(t.Context(), bytes.NewReader(b), "it", nil, nil)
		return err
	}
	if err := read(b); err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if err := read(b[:n]); !errors.As(err, new(*BackupError)) {
			t.Fatalf("cut off at %d of %d: %v", n, len(b), err)
		}
	}
	for i := 0; i < len(b)*8; i += 5 {
		b[i/8] ^= 1 << (i % 8)
		if err := read(b); !errors.As(err, new(*BackupError)) {
			t.Fatalf("bit %d of byte %d: %v", i%8, i/8, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	if err := read(append(bytes.Clone(b), 0)); err == nil {
		t.Error("a byte after the end was not noticed")
	}
	dir := filepath.Join(t.TempDir(), "store")
	for _, once := range []bool{false, true} {
		bad := source("bad", b[:len(b)-1])
		bad.Once = once
		if _, err := Restore(t.Context(), Config{Dir: dir, MinFreeBytes: -1}, []BackupSource{bad}, RestoreOptions{}); !errors.As(err, new(*BackupError)) {
			t.Errorf("once %v: %v", once, err)
		}
		nothingLeft(t, dir)
	}
	good := source("pipe", b)
	good.Once = true
	if err := os.MkdirAll(dir+restoringSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir+restoringSuffix, "000001.sst"), []byte("of a killed restore"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), Config{Dir: dir, MinFreeBytes: -1}, []BackupSource{good}, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), Config{Dir: dir, MinFreeBytes: -1}, []BackupSource{good}, RestoreOptions{}); !errors.As(err, new(*NotEmptyError)) {
		t.Errorf("into a directory with a store: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir = filepath.Join(t.TempDir(), "store")
	if _, err := Restore(ctx, Config{Dir: dir, MinFreeBytes: -1}, []BackupSource{good}, RestoreOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	nothingLeft(t, dir)
}

// slowly calls on between two writes.
type slowly struct {
	io.Writer
	between func()
}

func (w slowly) Write(p []byte) (int, error) {
	w.between()
	return w.Writer.Write(p)
}

// TestBackupWhileWriting: a backup shows the revision that it began at, whatever is written and compacted meanwhile,
// and a reader that takes nothing any more does not hold compaction up for ever.
func TestBackupWhileWriting(t *testing.T) {
	s, _ := running(t, Config{Retention: -1})
	lively(t, s)
	big := strings.Repeat("x", blockTarget/2)
	for i := range 8 {
		put(t, s, fmt.Sprintf("/big/%d", i), big)
	}
	if err := s.Compact(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	from, want := s.CurrentRevision(), list(t, s, "", 0)
	var b bytes.Buffer
	n := 0
	h, _, err := s.Backup(t.Context(), slowly{&b, func() {
		n++
		put(t, s, fmt.Sprintf("/big/%d", n%8), "replaced")
		if n%2 == 0 {
			remove(t, s, fmt.Sprintf("/big/%d", n%8))
		}
		if err := s.Compact(t.Context(), s.CurrentRevision()); err != nil {
			t.Error(err)
		}
		if s.Held() == 0 || s.CompactedRevision() > s.Held() {
			t.Errorf("compacted to %d while %d is held", s.CompactedRevision(), s.Held())
		}
	}}, BackupOptions{History: true})
	if err != nil {
		t.Fatal(err)
	}
	if n < 5 || h.Revision != from {
		t.Fatalf("%d blocks, revision %d; want several, and %d", n, h.Revision, from)
	}
	again := restored(t, RestoreOptions{}, source("full", b.Bytes()))
	if got := list(t, again, "", 0); got != want {
		t.Error("the backup is not of the revision that it began at")
	}
	verified(t, again)
	verified(t, s)
	if s.Held() != 0 {
		t.Errorf("revision %d is still held", s.Held())
	}
	p := s.hold(0)
	p.touched = time.Now().Add(-pinPatience)
	if s.Held() != 0 {
		t.Error("a reader that takes nothing holds compaction up")
	}
	s.pins.release(p)

	// The reader of a backup that cannot be finished learns why.
	ctx, cancel := context.WithCancel(t.Context())
	b.Reset()
	if _, _, err := s.Backup(ctx, slowly{&b, cancel}, BackupOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, _, err := VerifyBackup(t.Context(), &b, "it", nil, nil); err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("the reader of a cancelled backup: %v", err)
	}
}

// FuzzBackup: the reader takes any bytes without harm, and what it accepts is what a writer wrote.
func FuzzBackup(f *testing.F) {
	s, _ := running(f, Config{})
	lively(f, s)
	for _, o := range []BackupOptions{{}, {History: true}, {Incremental: true, Since: 20}} {
		b, _ := backedUp(f, s, o)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := NewBackupReader(bytes.NewReader(in), "")
		if err != nil {
			return
		}
		var out bytes.Buffer
		w, err := newBackupWriter(&out, r.Header(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Blocks(func(record *Record) error { return w.add(record) }); err != nil {
			return
		}
		end, err := w.close()
		if err != nil {
			t.Fatal(err)
		}
		if end.Keys != r.End().Keys || end.Changes != r.End().Changes {
			t.Errorf("%+v, want %+v", end, r.End())
		}
		if _, _, err := VerifyBackup(t.Context(), &out, "", nil, nil); err != nil {
			t.Errorf("written anew: %v", err)
		}
	})
}

// FuzzRecord: the decoder of records takes any bytes, past checksums too.
func FuzzRecord(f *testing.F) {
	for _, r := range []Record{
		{State: true, Key: "/a", Revision: 7, Value: []byte("v")},
		{Type: Updated, Key: "/a", Revision: 9, Previous: 7, Value: []byte("w"), Expires: 1},
		{Type: Deleted, Key: "/a", Revision: 10, Previous: 9},
	} {
		f.Add(appendRecord(nil, &r))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		r, rest, err := parseRecord(in)
		if err != nil {
			return
		}
		again, none, err := parseRecord(appendRecord(nil, &r))
		if err != nil || len(none) != 0 || fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", r) {
			t.Errorf("%+v (rest %d) became %+v: %v", r, len(rest), again, err)
		}
	})
}

// TestRestoreEncrypted: a backup of an encrypted database is restored into one that is encrypted by another key, which
// is then needed to read and verify it.
func TestRestoreEncrypted(t *testing.T) {
	old, key := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	s, _ := running(t, Config{Dir: filepath.Join(t.TempDir(), "store"), Keys: [][]byte{old}})
	lively(t, s)
	b, _ := backedUp(t, s, BackupOptions{})
	cfg := Config{Dir: filepath.Join(t.TempDir(), "store"), MinFreeBytes: -1, Keys: [][]byte{key}}
	if _, err := Restore(t.Context(), cfg, []BackupSource{source("full", b)}, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := VerifyDirectory(t.Context(), cfg, VerifyOptions{})
	if keys, _ := s.Size(""); err != nil || report.Found != 0 || report.Keys != keys {
		t.Errorf("%+v, %v; want %d keys", report, err, keys)
	}
	cfg.Keys = nil
	if _, _, err := OpenReading(cfg); err == nil || !strings.Contains(err.Error(), "it is encrypted") {
		t.Errorf("without the key: %v", err)
	}
}
