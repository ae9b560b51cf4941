package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	badger "github.com/dgraph-io/badger/v4"

	"github.com/klauspost/compress/s2"
)

// alike is a text, and what differs little from it.
func alike(n int) string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `"f:field-%d":{".":{},"f:name":{}},`, i*i)
		if i == 30 {
			fmt.Fprintf(&b, `"name":"object-%d",`, n)
		}
	}
	return b.String()
}

func noise(n int) string {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return string(b)
}

var byText = map[string][]byte{"/a/": []byte(alike(0)), "/a/other/": []byte(strings.Repeat("something else altogether ", 20))}

// packedOf says how the latest entry of a key is stored.
func packedOf(t testing.TB, s *Store, key string) (packed bool, size int) {
	t.Helper()
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	item, err := txn.Get(dataKey(key))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return item.UserMeta()&markPacked != 0, int(item.ValueSize())
}

// Values are what they were, however they are stored and whatever dictionaries the store is opened with (API-7).
func TestPackedValues(t *testing.T) {
	t.Parallel()
	cases := []struct {
		key, value string
		ttl        int64
		packed     bool
	}{
		{key: "/a/alike", value: alike(17), packed: true},
		{key: "/a/ends", value: alike(18), ttl: 1 << 30, packed: true},
		{key: "/a/large", value: strings.Repeat(alike(19), 10), packed: true},
		{key: "/a/half", value: alike(20) + noise(1000), packed: true},
		{key: "/a/other/x", value: strings.Repeat("something else altogether ", 10) + "!", packed: true},
		{key: "/a/noise", value: noise(900)},
		{key: "/a/short", value: alike(1)[:smallestPacked-1]},
		{key: "/a/empty", value: ""},
		{key: "/a/huge", value: strings.Repeat(alike(2), largestPacked/len(alike(2))+1)},
		{key: "/a/log", value: noise(600 << 10)},
		{key: "/b/alike", value: alike(21)},
	}
	for _, keys := range [][][]byte{nil, {bytes.Repeat([]byte{7}, 32)}} {
		t.Run(fmt.Sprintf("encrypted=%t", keys != nil), func(t *testing.T) {
			t.Parallel()
			cfg := Config{Dir: t.TempDir(), Dictionaries: byText, Retention: -1, Keys: keys}
			s, stop := running(t, cfg)
			for _, c := range cases {
				if _, err := s.Commit(t.Context(), Write{Key: c.key, Value: []byte("before " + c.value), TTL: c.ttl}); err != nil {
					t.Fatal(err)
				}
			}
			between := s.CurrentRevision()
			for _, c := range cases {
				if _, err := s.Commit(t.Context(), Write{Key: c.key, Value: []byte(c.value), Expect: AnyRevision, TTL: c.ttl}); err != nil {
					t.Fatal(err)
				}
				if packed, size := packedOf(t, s, c.key); packed != c.packed || packed && size > len(c.value)*7/8+16 {
					t.Errorf("%s: packed %t to %d of %d bytes, want %t", c.key, packed, size, len(c.value), c.packed)
				}
			}
			full := list(t, s, "/", 0)
			compare := func(what string, s *Store) {
				t.Helper()
				for _, c := range cases {
					kv, _, err := s.Get(c.key)
					if err != nil || string(kv.Value) != c.value || (kv.Expires != 0) != (c.ttl != 0) {
						t.Errorf("%s: %s is %.40q..., expires %d, %v", what, c.key, kv.Value, kv.Expires, err)
					}
					if e, _, _ := s.index.get(c.key); e.size != int64(len(c.value)) {
						t.Errorf("%s: %s has %d bytes in the index, want %d", what, c.key, e.size, len(c.value))
					}
					old, err := s.GetAt(c.key, between)
					if err != nil || string(old.Value) != "before "+c.value {
						t.Errorf("%s: %s was %.40q..., %v", what, c.key, old.Value, err)
					}
				}
				equal(t, what+": the list", list(t, s, "/", 0), full)
				if n := strings.Count(list(t, s, "/", between), "=before "); n != len(cases) {
					t.Errorf("%s: the former list has %d keys, want %d", what, n, len(cases))
				}
				if got := replay(t, s, between); strings.Count(got, " ") == 0 {
					t.Errorf("%s: replayed %.80s", what, got)
				}
				verified(t, s)
			}
			compare("written", s)
			backup, _ := backedUp(t, s, BackupOptions{History: true})
			compare("restored", restored(t, RestoreOptions{}, source("full", backup)))
			stop()
			for what, dictionaries := range map[string]map[string][]byte{
				"the same": byText, "none": nil, "others": {"/a/": []byte(strings.Repeat("nothing alike ", 9))},
			} {
				cfg.Dictionaries = dictionaries
				s, stop := running(t, cfg)
				compare("opened with "+what, s)
				stop()
			}
			cfg.Dictionaries = nil
			reading, closeReading, err := OpenReading(cfg)
			if err != nil {
				t.Fatal(err)
			}
			compare("read offline", reading)
			if err := closeReading(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A database keeps each dictionary once, whichever program gave it, and says so to those that know of none.
func TestDictionariesAreKept(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	steps := []struct {
		dictionaries map[string][]byte
		known        int
		format       uint64
	}{
		{nil, 0, formatVersion},
		{map[string][]byte{"/a/": byText["/a/"]}, 1, formatPacked},
		{byText, 2, formatPacked},
		{nil, 2, formatPacked},
		{map[string][]byte{"/elsewhere/": byText["/a/"]}, 2, formatPacked},
	}
	for i, step := range steps {
		cfg.Dictionaries = step.dictionaries
		s, stop := running(t, cfg)
		put(t, s, "/a/x", alike(i))
		if format, err := s.readMeta("format"); err != nil || format != step.format || len(s.dictionaries.known) != step.known {
			t.Errorf("step %d: format %d, %d dictionaries, %v; want %d and %d", i, format, len(s.dictionaries.known), err, step.format, step.known)
		}
		if packed, _ := packedOf(t, s, "/a/x"); packed != (step.dictionaries["/a/"] != nil) {
			t.Errorf("step %d: packed %t", i, packed)
		}
		stop()
	}
	cfg.Dictionaries = map[string][]byte{"/a/": nil}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), `"/a/" has 0 bytes`) {
		t.Errorf("an empty dictionary: %v", err)
	}
}

// What a crash leaves of a group is undone where the former value is packed, too.
func TestTornGroupOverPackedValue(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), Dictionaries: byText}
	s, stop := running(t, cfg)
	good := put(t, s, "/a/x", alike(1))
	stop()
	s, err := Open(mustDefaults(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	batch := s.db.NewManagedWriteBatch()
	if err := errors.Join(batch.SetEntryAt(badger.NewEntry(dataKey("/a/x"), []byte("torn")), good+1), batch.Flush(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s, _ = running(t, cfg)
	kv, _, err := s.Get("/a/x")
	if err != nil || string(kv.Value) != alike(1) || kv.Revision != good || s.CurrentRevision() != good+1 {
		t.Errorf("it is %.40q at %d of %d, %v", kv.Value, kv.Revision, s.CurrentRevision(), err)
	}
	if packed, _ := packedOf(t, s, "/a/x"); !packed {
		t.Error("its copy is not packed")
	}
}

// A value whose dictionary is not there is reported, with its key, and not served.
func TestMissingDictionary(t *testing.T) {
	t.Parallel()
	s, _ := running(t, Config{Dictionaries: byText})
	put(t, s, "/a/x", alike(1))
	put(t, s, "/b/x", alike(1))
	clear(s.dictionaries.known)
	_, _, err := s.Get("/a/x")
	if corrupt := new(CorruptError); !errors.As(err, &corrupt) || corrupt.Key != "/a/x" || !strings.Contains(err.Error(), "dictionary") {
		t.Errorf("without its dictionary: %v", err)
	}
	if _, _, err := s.Get("/b/x"); err != nil {
		t.Errorf("one that needs none: %v", err)
	}
}

func FuzzPack(f *testing.F) {
	for _, c := range []string{"", "short", alike(0), alike(3), noise(500), alike(4) + noise(100), strings.Repeat("a", 1000), alike(0)[7:]} {
		f.Add([]byte(alike(0)), []byte(c))
		f.Add([]byte(c), []byte(alike(0)))
	}
	f.Add([]byte(alike(0)), []byte{1, 20, 2, 'a', 'b', 18, 4, 0})
	f.Fuzz(func(t *testing.T, text, value []byte) {
		by := s2.MakeDict(text, nil)
		if by == nil || len(text) > s2.MaxDictSize {
			return
		}
		d := dictionaries{known: map[uint64]*s2.Dict{1: by}, current: []dictionary{{"/", 1, by}}}
		head := []byte("head")
		if packed, mark := d.pack(head, "/a", value); mark != 0 {
			got, err := d.unpack(packed[len(head):])
			if size, sizeErr := unpackedSize(packed[len(head):]); err != nil || sizeErr != nil || size != int64(len(value)) || !bytes.Equal(got, value) {
				t.Errorf("by %q: %q became %q of %d bytes, %v, %v", text, value, got, size, err, sizeErr)
			}
			if len(packed)-len(head) >= len(value) || !bytes.HasPrefix(packed, head) {
				t.Errorf("%d bytes take %d behind %q", len(value), len(packed)-len(head), packed[:len(head)])
			}
		}
		// Whatever is on disk, it must not panic.
		if got, err := d.unpack(value); err == nil && len(got) > largestPacked {
			t.Errorf("%d bytes out of %d", len(got), len(value))
		}
	})
}

// What a value of some kilobytes costs to pack and to read.
func BenchmarkPack(b *testing.B) {
	by := s2.MakeDict([]byte(alike(0)), nil)
	d := dictionaries{known: map[uint64]*s2.Dict{1: by}, current: []dictionary{{"/", 1, by}}}
	value := []byte(alike(1))
	packed, _ := d.pack(nil, "/a", value)
	b.Run("pack", func(b *testing.B) {
		b.ReportMetric(float64(len(packed))/float64(len(value)), "of-1")
		buffer := make([]byte, 0, 2*len(value))
		for b.Loop() {
			d.pack(buffer, "/a", value)
		}
	})
	b.Run("unpack", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.unpack(packed); err != nil {
				b.Fatal(err)
			}
		}
	})
}
