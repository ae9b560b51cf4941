package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// filled makes a database with some tables and closes it.
func filled(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, stop := running(t, Config{Dir: dir, Retention: -1})
	lively(t, s)
	if err := s.Compact(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	stop()
	return dir
}

func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// TestOpenReading: what is read offline is what a kernel would serve, also after a crash, and nothing in the directory
// changes.
func TestOpenReading(t *testing.T) {
	crashed := t.TempDir()
	live, _ := running(t, Config{})
	lively(t, live)
	want := list(t, live, "", 0)
	entries, err := os.ReadDir(live.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries { // as after kill -9
		if err := duplicate(filepath.Join(live.cfg.Dir, e.Name()), filepath.Join(crashed, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := OpenReading(Config{Dir: live.cfg.Dir}); !errors.As(err, new(*LockedError)) {
		t.Errorf("a directory in use: %v", err)
	}
	before := files(t, crashed)
	s, closeStore, err := OpenReading(Config{Dir: crashed})
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, s, "", 0); got != want {
		t.Errorf("read\n%s\nwant\n%s", got, want)
	}
	if report := verified(t, s); report.Revision != live.CurrentRevision() || report.Keys == 0 {
		t.Errorf("%+v", report)
	}
	if _, err := Open(Config{Dir: crashed, MinFreeBytes: -1}); !errors.As(err, new(*LockedError)) {
		t.Errorf("a directory that is read: %v", err)
	}
	if err := closeStore(); err != nil {
		t.Fatal(err)
	}
	after := files(t, crashed)
	for name := range before {
		if after[name] != before[name] {
			t.Errorf("%s changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, want %d", len(after), len(before))
	}
	if left, _ := filepath.Glob(crashed + readingSuffix + "*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, _, err := OpenReading(Config{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "holds no database") {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestVerifyFindsDamage: a wrong bit in a table, a lost table, a lost entry of the history, a lost value and a value
// that nothing accounts for are each found and named.
func TestVerifyFindsDamage(t *testing.T) {
	problems := func(dir string) (out string) {
		t.Helper()
		report, err := VerifyDirectory(t.Context(), Config{Dir: dir, MinFreeBytes: -1}, VerifyOptions{Check: func(kv KV) error {
			if string(kv.Value) == "ends" {
				return errors.New("no object")
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range report.Problems {
			out += p.String() + "\n"
		}
		return out
	}
	raw := func(dir string, change func(*badger.WriteBatch) error) {
		t.Helper()
		db, err := badger.OpenManaged(badgerOptions(mustDefaults(t, Config{Dir: dir})))
		if err != nil {
			t.Fatal(err)
		}
		batch := db.NewManagedWriteBatch()
		if err := errors.Join(change(batch), batch.Flush(), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	table := func(dir string) string {
		tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil || len(tables) == 0 {
			t.Fatalf("%v, %d tables", err, len(tables))
		}
		return tables[0]
	}
	for name, c := range map[string]struct {
		damage func(dir string)
		words  []string
	}{
		"nothing but an object": {func(string) {}, []string{"objects: key /registry/events/e: revision", "no object"}},
		"a bit of a table": {func(dir string) {
			b, err := os.ReadFile(table(dir))
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/3] ^= 1
			if err := os.WriteFile(table(dir), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"tables: file 0000"}},
		"a table": {func(dir string) {
			if err := os.Remove(table(dir)); err != nil {
				t.Fatal(err)
			}
		}, []string{"tables: file 0000", "missing"}},
		"an entry of the history": {func(dir string) {
			raw(dir, func(b *badger.WriteBatch) error { return b.DeleteAt(historyKey(40), 40) })
		}, []string{"open: revision 40: the history has a gap"}},
		"a value": {func(dir string) {
			raw(dir, func(b *badger.WriteBatch) error {
				return b.SetEntryAt(badger.NewEntry(historyKey(30), encodeGroup(30, []change{{kind: Created, key: "/lost"}})), 30)
			})
		}, []string{"key /lost: revision 30: it was created by this revision, which is missing on disk"}},
		"an unknown value": {func(dir string) {
			raw(dir, func(b *badger.WriteBatch) error {
				return b.SetEntryAt(badger.NewEntry(dataKey("/stray"), []byte("x")), 33)
			})
		}, []string{"key /stray: revision 33: it was created by this revision on disk, the history says otherwise"}},
	} {
		dir := filled(t)
		c.damage(dir)
		got := problems(dir)
		for _, w := range c.words {
			if !strings.Contains(got, w) {
				t.Errorf("%s: found\n%swant %q", name, got, w)
			}
		}
	}
}

func mustDefaults(t testing.TB, cfg Config) Config {
	t.Helper()
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestHistory: the versions of a key that are kept come the latest first, and a key that was never there has none.
func TestHistory(t *testing.T) {
	s, _ := running(t, Config{Retention: -1})
	versions := func(key string) (out string) {
		t.Helper()
		err := s.History(key, func(v Version) bool {
			out += fmt.Sprintf("%d:%s=%s ", v.Revision, v.Type, v.Value)
			if v.Oldest {
				out += "oldest "
			}
			return true
		})
		if err != nil && !errors.Is(err, ErrKeyNotFound) {
			t.Fatal(err)
		}
		return out
	}
	put(t, s, "/a", "1")
	put(t, s, "/ab", "x")
	put(t, s, "/a", "2")
	remove(t, s, "/a")
	put(t, s, "/a", "3")
	if got, want := versions("/a"), "6:created=3 5:deleted= 4:updated=2 2:created=1 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := versions("/b"); got != "" {
		t.Errorf("a key that is not there: %q", got)
	}
	if err := s.Compact(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if got, want := versions("/a"), "6:created=3 5:deleted= 4:created=2 oldest "; got != want {
		t.Errorf("compacted: got %q, want %q", got, want)
	}
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if st.Keys != 2 || st.Revision != 6 || st.Compacted != 4 || st.Disk.Total() == 0 || st.Disk.Free == 0 {
		t.Errorf("%+v", st)
	}
}
