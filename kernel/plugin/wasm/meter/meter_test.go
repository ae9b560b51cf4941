package meter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
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
			_, err := Rewrite(tc.data)
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
		out, err := Rewrite(data)
		if err != nil && !errors.Is(err, errModule) {
			t.Errorf("unexpected error %v", err)
		}
		if err == nil && len(out) < len("\x00asm\x01\x00\x00\x00") {
			t.Error("nothing came out")
		}
	})
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
		_, err := Rewrite(c.module)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// A function whose body is: ref.null func; i32.const 1; table.grow 0; drop; end.
	body := []byte{0, 0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a, 0x0b}
	code := append([]byte{sectionCode, byte(len(body) + 2), 1, byte(len(body))}, body...)
	if _, err := Rewrite(module([]byte{sectionType, 4, 1, 0x60, 0, 0}, []byte{sectionFunction, 2, 1, 0}, table(1), code)); err == nil || !strings.Contains(err.Error(), "table.grow") {
		t.Errorf("table.grow: %v", err)
	}
}
