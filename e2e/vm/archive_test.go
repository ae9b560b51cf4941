package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArchive: headers, names and contents are where the kernel looks for them.
func TestArchive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("hello"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := newArchive(&out)
	if err := a.file("a/b/x", file); err != nil {
		t.Fatal(err)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	type entry struct{ name, mode, content string }
	var got []entry
	for data := out.Bytes(); len(data) > 0; {
		if len(data) < 110 || string(data[:6]) != "070701" {
			t.Fatalf("no header at %q", data)
		}
		size, name := field(t, data, 6), field(t, data, 11)
		start := align(110 + name)
		got = append(got, entry{string(data[110 : 110+name-1]), string(data[14:22]), string(data[start : start+size])})
		data = data[align(start+size):]
	}
	want := []entry{{"a", "000041ED", ""}, {"a/b", "000041ED", ""}, {"a/b/x", "000081C0", "hello"}, {"TRAILER!!!", "00000000", ""}}
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d: %q, want %q", i, got[i], want[i])
		}
	}
	if err := a.file("y", filepath.Join(t.TempDir(), "missing")); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func align(n int) int { return (n + 3) &^ 3 }

// field reads a number of a header.
func field(t *testing.T, header []byte, i int) int {
	t.Helper()
	n := 0
	for _, c := range header[6+8*i : 14+8*i] {
		d := strings.IndexByte("0123456789ABCDEF", c)
		if d < 0 {
			t.Fatalf("%q is no number", c)
		}
		n = n<<4 | d
	}
	return n
}
