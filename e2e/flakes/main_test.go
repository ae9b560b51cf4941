package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A test that fails each second time is found, one that never does is not, and its log is kept.
func TestFindsTheFlaky(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod": "module flaky\n\ngo 1.26\n",
		"pkg/a_test.go": `package pkg

import "testing"

var runs int

func TestSteady(t *testing.T) {}

func TestFlaky(t *testing.T) {
	if runs++; runs%2 == 0 {
		t.Fatal("each second time")
	}
}

func TestEnds(t *testing.T) { panic("the end") }
`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := options{pkg: "pkg", run: ".", out: "out", runs: 4, load: 1, each: 1e9}
	err := run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "TestFlaky, TestEnds;") {
		t.Errorf("found %v, want TestFlaky and TestEnds", err)
	}
	if b, err := os.ReadFile("out/TestFlaky.log"); err != nil || strings.Count(string(b), "each second time") != 2 {
		t.Errorf("log: %v, %q", err, b)
	}
	o.run = "Steady"
	if err := run(t.Context(), o); err != nil {
		t.Errorf("TestSteady: %v", err)
	}
	o.run = "Nothing"
	if err := run(t.Context(), o); err == nil {
		t.Error("no test matched, and nothing was said")
	}
}
