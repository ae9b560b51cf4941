package store

import (
	"strings"
	"testing"
	"unsafe"
)

// Keys of the index are its own and lie side by side; an update keeps the key that is there.
func TestIndexKeys(t *testing.T) {
	x := newIndex()
	keys := []string{"/registry/a", "/registry/b", strings.Repeat("long", slabBytes), "/registry/c"}
	for i, key := range keys {
		x.apply([]pending{{entry: entry{key: key, revision: uint64(i + 1)}}}, uint64(i+1))
	}
	address := func(key string) *byte { return unsafe.StringData(key) }
	places := map[string]*byte{}
	for _, key := range keys {
		e, _, ok := x.get(key)
		if !ok || e.key != key || address(e.key) == address(key) {
			t.Fatalf("%.20q: %v", key, ok)
		}
		places[key] = address(e.key)
	}
	if a, b := places[keys[0]], places[keys[1]]; unsafe.Add(unsafe.Pointer(a), len(keys[0])) != unsafe.Pointer(b) {
		t.Error("keys are not side by side")
	}
	again := strings.Clone(keys[0])
	s := &Store{index: x, meters: newMeters()}
	g := s.plan([]*request{
		{ctx: t.Context(), Write: Write{Key: again, Delete: true, Expect: AnyRevision}},
		{ctx: t.Context(), Write: Write{Key: strings.Clone(again), Expect: 0}},
		{ctx: t.Context(), Write: Write{Key: strings.Clone(again), Expect: AnyRevision}},
	})
	x.apply(g.pending, 7)
	if e, _, _ := x.get(keys[0]); e.revision != 7 || address(e.key) != places[keys[0]] {
		t.Error("an update took another key")
	}
	for range 3 * slabBytes / len(keys[0]) {
		if got := x.keys.keep(keys[0]); got != keys[0] {
			t.Fatalf("kept %q", got)
		}
	}
}
