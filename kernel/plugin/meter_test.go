package plugin

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// section puts a section together for hand-made modules.
func section(id byte, body ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
}

func wasmFile(sections ...[]byte) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		out = append(out, s...)
	}
	return out
}

func TestMeterRefuses(t *testing.T) {
	voidType := section(sectionType, 1, 0x60, 0, 0)
	oneFunction := section(sectionFunction, 1, 0)
	code := func(body ...byte) []byte {
		return section(sectionCode, append([]byte{1, byte(len(body) + 1), 0}, body...)...)
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"not wasm", []byte("hello, world"), "not a WASM 1.0 binary"},
		{"truncated section", wasmFile([]byte{1, 9, 0}), "truncated"},
		{"section twice", wasmFile(voidType, voidType), "section 1"},
		{"call beyond the end", wasmFile(voidType, oneFunction, code(0x10, 1, 0x0b)), "function 1 of 1"},
		{"the fuel by its index", wasmFile(voidType, oneFunction, code(0x41, 0, 0x24, 0, 0x0b)), "global"},
		{"exported fuel", wasmFile(section(sectionExport, 1, 1, 'x', 3, 0)), "exported global"},
		{"unknown instruction", wasmFile(voidType, oneFunction, code(0xfe, 0, 0x0b)), "instruction 0xfe (threads); build without atomics"},
		{"tail call", wasmFile(voidType, oneFunction, code(0x12, 0, 0x0b)), "instruction 0x12 (a tail call); build without tail calls"},
		{"no end", wasmFile(voidType, oneFunction, code(0x01)), "truncated"},
		{"bytes behind the end", wasmFile(voidType, oneFunction, code(0x0b, 0x0b)), "bytes behind a function"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := meter(tc.data)
			if !errors.Is(err, errModule) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func FuzzMeter(f *testing.F) {
	f.Add(wasmFile())
	f.Add(wasmFile(section(sectionType, 1, 0x60, 0, 0), section(sectionFunction, 1, 0), section(sectionCode, 1, 4, 0, 0x03, 0x40, 0x0b, 0x0b)))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := meter(data)
		if err != nil && !errors.Is(err, errModule) {
			t.Errorf("unexpected error %v", err)
		}
		if err == nil && len(out) < len("\x00asm\x01\x00\x00\x00") {
			t.Error("nothing came out")
		}
	})
}

// hostile builds, by hand, a module with all exports whose pintle_filter has
// the given body (five i32 parameters, an i32 result) and whose pintle_alloc
// answers a pointer.
func hostile(filter []byte, alloc byte) []byte {
	exports := []struct {
		name string
		kind byte // index of the type below
		body []byte
	}{
		{"pintle_abi_version", 0, []byte{0x41, 1}},
		{"pintle_alloc", 1, []byte{0x41, alloc}},
		{"pintle_free", 2, nil},
		{"pintle_describe", 3, nil},
		{"pintle_configure", 4, []byte{0x41, 0}},
		{"pintle_apply", 5, []byte{0x41, 0}},
		{"pintle_filter", 6, filter},
		{"pintle_score", 6, []byte{0x41, 0}},
		{"pintle_normalize", 6, []byte{0x41, 0}},
		{"pintle_reason", 7, []byte{0x42, 0}},
		{"pintle_error", 3, []byte{0x42, 0}},
	}
	const text = `{"contract":1,"plugins":[{"name":"P","kind":"predicate","scope":"node"}]}`
	// (1024 << 32) | len(text)
	exports[3].body = appendSigned([]byte{0x41}, int32(len(text)))
	exports[3].body = append(exports[3].body, 0xad, 0x41, 0x80, 0x08, 0xad, 0x42, 0x20, 0x86, 0x84)
	types := []byte{8,
		0x60, 0, 1, 0x7f, 0x60, 1, 0x7f, 1, 0x7f, 0x60, 1, 0x7f, 0, 0x60, 0, 1, 0x7e,
		0x60, 3, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7f,
		0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7e}
	functions, table, code := []byte{byte(len(exports))}, []byte{byte(len(exports) + 1), 6, 'm', 'e', 'm', 'o', 'r', 'y', 2, 0}, []byte{byte(len(exports))}
	for i, e := range exports {
		functions = append(functions, e.kind)
		table = append(append(table, byte(len(e.name))), e.name...)
		table = append(table, 0, byte(i))
		code = binary.AppendUvarint(code, uint64(len(e.body)+2))
		code = append(append(append(code, 0), e.body...), 0x0b)
	}
	data := append([]byte{1, 0, 0x41, 0x80, 0x08, 0x0b, byte(len(text))}, text...)
	return wasmFile(section(sectionType, types...), section(sectionFunction, functions...), section(5, 1, 0, 1),
		section(sectionExport, table...), section(sectionCode, code...), section(11, data...))
}

// Answers out of range, loops and traps of modules in any language break the
// instance and nothing else.
func TestHandMadeGuests(t *testing.T) {
	for _, tc := range []struct {
		name   string
		filter []byte
		alloc  byte
		want   string // empty: it answers
	}{
		{"answers", []byte{0x41, 0}, 16, ""},
		{"unknown status", []byte{0x41, 5}, 16, "status 5"},
		{"status below all", []byte{0x41, 0x60}, 16, "status -32"},
		{"verdict without reason", []byte{0x20, 4, 0x41, 3, 0x36, 2, 0, 0x41, 0}, 16, "verdict 3 has no reason"},
		{"verdict too large", []byte{0x20, 4, 0x41, 0x7f, 0x36, 2, 0, 0x41, 0}, 16, "verdict 4294967295"},
		{"null buffer", []byte{0x41, 0}, 0, "pintle_alloc returned 0x0"},
		{"unaligned buffer", []byte{0x41, 0}, 4, "pintle_alloc returned 0x4"},
		{"buffer outside memory", []byte{0x41, 0}, 0x78, "are not in its memory"}, // -8
		{"trap", []byte{0x00}, 16, "unreachable"},
		{"reads outside memory", []byte{0x41, 0x7f, 0x28, 2, 0}, 16, "out of bounds"},
		{"loops", []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x41, 0}, 16, "no answer in time"},
		{"calls itself", []byte{0x20, 0, 0x20, 0, 0x20, 0, 0x20, 0, 0x20, 0, 0x10, 6}, 16, ""},
		{"calls itself from a loop", []byte{0x03, 0x40, 0x20, 0, 0x20, 0, 0x20, 0, 0x20, 0, 0x20, 0, 0x10, 6, 0x1a, 0x0c, 0, 0x0b, 0x41, 0}, 16, ""},
		{"fills without end", []byte{0x03, 0x40, 0x41, 0, 0x41, 0, 0x41, 0x80, 0x80, 0x04, 0xfc, 11, 0, 0x0c, 0, 0x0b, 0x41, 0}, 16, "no answer in time"},
		{"fills beyond its memory", []byte{0x41, 0, 0x41, 0, 0x41, 0x7f, 0xfc, 11, 0, 0x41, 0}, 16, "out of bounds"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			manifest := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: h\nversion: 1.0.0\nplugins:\n- {name: P, kind: predicate}\n"
			if err := os.WriteFile(filepath.Join(dir, ManifestFile), []byte(manifest), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "h.wasm"), hostile(tc.filter, tc.alloc), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := Seal(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			m, err := ReadManifest(filepath.Join(dir, ManifestFile))
			if err != nil {
				t.Fatal(err)
			}
			b := &Bundle{Directory: dir, Manifest: m}
			mod, err := loadModule(t.Context(), b, m.Artifacts.WASM, m.Artifacts.WASM.Digest, testModules, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer mod.close(context.Background())
			call := 2 * time.Minute
			if tc.want == "no answer in time" || strings.HasPrefix(tc.name, "calls itself") {
				call = 50 * time.Millisecond
			}
			g, err := mod.instantiate(call, 2*time.Minute, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer g.close(context.Background(), 0)
			out := make([]uint32, 1)
			err = g.filter(t.Context(), 0, 1, []uint32{0}, out)
			switch {
			case strings.HasPrefix(tc.name, "calls itself"):
				if !errors.Is(err, errBroken) {
					t.Errorf("got %v, want a broken guest", err)
				}
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.Is(err, errBroken) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// TestMeterBoundsTables: what lies outside of a module's memory is bounded too.
func TestMeterBoundsTables(t *testing.T) {
	module := func(sections ...[]byte) []byte {
		out := []byte("\x00asm\x01\x00\x00\x00")
		for _, s := range sections {
			out = append(out, s...)
		}
		return out
	}
	table := func(least ...byte) []byte {
		return append([]byte{sectionTable, byte(3 + len(least)), 1, 0x70, 0}, least...)
	}
	for name, c := range map[string]struct {
		module []byte
		want   string
	}{
		"small":     {module(table(0x10)), ""},
		"huge":      {module(table(0xff, 0xff, 0xff, 0x3f)), "tables of more than 1048576 entries"},
		"many":      {module(append([]byte{sectionTable, 1 + 17*3, 17}, bytes.Repeat([]byte{0x70, 0, 0}, 17)...)), "more than 16 tables"},
		"truncated": {module([]byte{sectionTable, 2, 1, 0x70}), "truncated"},
	} {
		_, err := meter(c.module)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A function whose body is: ref.null func; i32.const 1; table.grow 0; drop; end.
	body := []byte{0, 0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a, 0x0b}
	code := append([]byte{sectionCode, byte(len(body) + 2), 1, byte(len(body))}, body...)
	if _, err := meter(module([]byte{sectionType, 4, 1, 0x60, 0, 0}, []byte{sectionFunction, 2, 1, 0}, table(1), code)); err == nil || !strings.Contains(err.Error(), "table.grow") {
		t.Errorf("table.grow: %v", err)
	}
}
