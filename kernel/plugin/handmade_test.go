package plugin

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/plugin/wasm"
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
	exports[3].body = []byte{0x41, byte(len(text)) | 0x80, 0} // a signed number in two bytes
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
	return wasmFile(section(1, types...), section(3, functions...), section(5, 1, 0, 1),
		section(7, table...), section(10, code...), section(11, data...))
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
			text := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: h\nversion: 1.0.0\nplugins:\n- {name: P, kind: predicate}\n"
			if err := os.WriteFile(filepath.Join(dir, manifest.File), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "h.wasm"), hostile(tc.filter, tc.alloc), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := seal.Seal(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			m, err := manifest.Read(filepath.Join(dir, manifest.File))
			if err != nil {
				t.Fatal(err)
			}
			b := &manifest.Bundle{Directory: dir, Manifest: m}
			mod, err := wasm.Load(t.Context(), b, m.Artifacts.WASM, m.Artifacts.WASM.Digest, testModules, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer mod.Close(context.Background())
			call := 2 * time.Minute
			if tc.want == "no answer in time" || strings.HasPrefix(tc.name, "calls itself") {
				call = 50 * time.Millisecond
			}
			g, err := mod.Instantiate(call, 2*time.Minute, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close(context.Background(), 0)
			out := make([]uint32, 1)
			err = g.Filter(t.Context(), 0, 1, []uint32{0}, out)
			switch {
			case strings.HasPrefix(tc.name, "calls itself"):
				if !errors.Is(err, guest.ErrBroken) {
					t.Errorf("got %v, want a broken guest", err)
				}
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.Is(err, guest.ErrBroken) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
