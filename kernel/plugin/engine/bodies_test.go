package engine

import (
	"io"
	"slices"
	"strconv"
	"testing"

	"github.com/tetratelabs/wazero"
)

// A compiled module holds no instructions, whether it was compiled or came from a cache,
// and computes the same in each instance, also in one that is made later.
func TestBodies(t *testing.T) {
	const few = 200
	text, dir := large(few), t.TempDir()
	var want []uint64
	for _, from := range []string{"compiled", "cached"} {
		cache, err := wazero.NewCompilationCacheWithDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Compile(t.Context(), text, cache, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if left := letGoOfBodies(m.compiled); left > 0 {
			t.Errorf("%s: %d bytes of instructions are left", from, left)
		}
		for range 2 {
			instance, err := m.Instantiate(nil, &LinearMemory{}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			var got []uint64
			for i := range few {
				r, err := instance.ExportedFunction("f"+strconv.Itoa(i)).Call(t.Context(), uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, r...)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: other answers", from)
			}
		}
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	// And they were there before.
	r := wazero.NewRuntime(t.Context())
	c, err := r.CompileModule(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	if dropped := letGoOfBodies(c); dropped < len(text)*9/10 {
		t.Errorf("%d bytes of instructions were found in a module of %d", dropped, len(text))
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
