package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// handmade is a WebAssembly module made of bytes: what no compiler writes, and
// nothing that takes time to build. Bodies are instructions without locals and
// without the closing end; an empty one is what a harmless plugin does.
type handmade struct {
	description string   // at 16
	text        []byte   // at 32768
	imports     []string // of pintle_host, functions of (i32, i32) → i32, of log without, in this order from 0
	pages       uint32   // of memory; 0: 16
	initialize, alloc, describe, filter, admit, reconcile,
	failure []byte
}

const textAt = 32768

// Instructions.
var (
	unreachable = []byte{0x00}
	forever     = []byte{0x03, 0x40, 0x0c, 0x00, 0x0b, 0x00} // loop br 0 end unreachable
	// memory.fill(out, 0, 4*n), of pintle_filter.
	everythingFits = []byte{0x20, 4, 0x41, 0, 0x20, 3, 0x41, 4, 0x6c, 0xfc, 0x0b, 0, 0x41, 0}
)

func i32(n uint32) []byte { return append([]byte{0x41}, signed(int64(int32(n)))...) }
func i64(n uint64) []byte { return append([]byte{0x42}, signed(int64(n))...) }

// span are the instructions that answer bytes at a pointer.
func span(pointer, size uint32) []byte { return i64(uint64(pointer)<<32 | uint64(size)) }

// call are those that call an import about size bytes at a pointer.
func call(imported byte, pointer, size uint32) []byte {
	return append(tell(imported, pointer, size), 0x1a)
}

// tell is call of an import without a result.
func tell(imported byte, pointer, size uint32) []byte {
	return bytes.Join([][]byte{i32(pointer), i32(size), {0x10, imported}}, nil)
}

// again repeats instructions without end.
func again(body []byte) []byte {
	return bytes.Join([][]byte{{0x03, 0x40}, body, {0x0c, 0x00, 0x0b, 0x00}}, nil)
}

// signed is LEB128.
func signed(n int64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func unsigned(n int) []byte {
	var out []byte
	for ; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}

func named(s string) []byte { return append(unsigned(len(s)), s...) }

// listed is a section or a vector.
func listed(items ...[]byte) []byte { return append(unsigned(len(items)), bytes.Join(items, nil)...) }

func section(id byte, content []byte) []byte {
	return append(append([]byte{id}, unsigned(len(content))...), content...)
}

func or(body, otherwise []byte) []byte {
	if body == nil {
		return otherwise
	}
	return body
}

// module writes the binary (WebAssembly core specification, chapter 5).
func (h handmade) module() []byte {
	const i, l = 0x7f, 0x7e
	var types, imports, functions, exports, bodies [][]byte
	kind := func(params, results []byte) []byte {
		types = append(types, bytes.Join([][]byte{{0x60}, named(string(params)), named(string(results))}, nil))
		return unsigned(len(types) - 1)
	}
	for _, name := range h.imports {
		result := []byte{i}
		if name == "log" {
			result = nil
		}
		imports = append(imports, bytes.Join([][]byte{named("pintle_host"), named(name), {0}, kind([]byte{i, i}, result)}, nil))
	}
	add := func(name string, params, results, body []byte) {
		exports = append(exports, bytes.Join([][]byte{named(name), {0}, unsigned(len(imports) + len(functions))}, nil))
		functions = append(functions, kind(params, results))
		code := bytes.Join([][]byte{{0}, body, {0x0b}}, nil)
		bodies = append(bodies, append(unsigned(len(code)), code...))
	}
	nothing := i32(0)
	add("_initialize", nil, nil, h.initialize)
	add("pintle_abi_version", nil, []byte{i}, i32(1))
	// Memory that is never given back: what the global says, rounded up.
	add("pintle_alloc", []byte{i}, []byte{i}, or(h.alloc, []byte{0x23, 0, 0x23, 0, 0x20, 0, 0x6a, 0x41, 15, 0x6a, 0x41, 0x70, 0x71, 0x24, 0}))
	add("pintle_free", []byte{i}, nil, nil)
	add("pintle_describe", nil, []byte{l}, or(h.describe, span(16, uint32(len(h.description)))))
	add("pintle_configure", []byte{i, i, i}, []byte{i}, nothing)
	add("pintle_apply", []byte{i, i}, []byte{i}, nothing)
	add("pintle_filter", []byte{i, i, i, i, i}, []byte{i}, or(h.filter, everythingFits))
	add("pintle_score", []byte{i, i, i, i, i}, []byte{i}, nothing)
	add("pintle_normalize", []byte{i, i, i, i, i}, []byte{i}, nothing)
	add("pintle_reason", []byte{i, i}, []byte{l}, i64(0))
	add("pintle_error", nil, []byte{l}, or(h.failure, i64(0)))
	add("pintle_admit", []byte{i, i, i}, []byte{l}, or(h.admit, i64(0)))
	add("pintle_reconcile", []byte{i, i, i}, []byte{l}, or(h.reconcile, i64(0)))
	exports = append(exports, append(named("memory"), 2, 0))
	pages := h.pages
	if pages == 0 {
		pages = 16
	}
	data := func(at uint32, content []byte) []byte {
		return bytes.Join([][]byte{{0}, i32(at), {0x0b}, named(string(content))}, nil)
	}
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, listed(types...)), section(2, listed(imports...)), section(3, listed(functions...)),
		section(5, listed(append([]byte{0}, unsigned(int(pages))...))),
		section(6, listed(bytes.Join([][]byte{{i, 1}, i32(1 << 16), {0x0b}}, nil))),
		section(7, listed(exports...)), section(10, listed(bodies...)),
		section(11, listed(data(16, []byte(h.description)), data(textAt, h.text))),
	}, nil)
}

// described is the description of one plugin; more is further JSON, with a comma
// before it.
func described(name, kind, more string) string {
	return fmt.Sprintf(`{"contract":1,"plugins":[{"name":%q,"kind":%q,"scope":"node"%s}]}`, name, kind, more)
}

// bundle writes a module's bundle into a catalog and seals it; more is further
// lines of the manifest, the plugin's own first.
func (h handmade) bundle(t *testing.T, catalog, name, kind, more string) string {
	t.Helper()
	dir := filepath.Join(catalog, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, name+".wasm"), string(h.module()))
	write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest(name, name, kind)+more)
	seal(t, dir)
	return dir
}

func seal(t *testing.T, dir string) {
	t.Helper()
	if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
		t.Fatalf("seal %s: %v\n%s", dir, err, text)
	}
}
