package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A test that fails each second time is found, and its log is kept. One that never
// does is not, and the next start goes on where the last one ended.
func TestFindsTheFlaky(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"go.mod": "module flaky\n\ngo 1.26\n",
		"pkg/a_test.go": `package pkg

import (
	"os"
	"testing"
)

func TestSteady(t *testing.T) {}

func TestFlaky(t *testing.T) {
	b, _ := os.ReadFile("runs")
	if err := os.WriteFile("runs", append(b, 'x'), 0o644); err != nil {
		t.Fatal(err)
	}
	if len(b)%2 == 1 {
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
	o := options{pkg: "pkg", run: ".", out: "out", runs: 4, load: 1, parallel: 1, each: time.Minute}
	var runs int
	check := func(want string) {
		t.Helper()
		runs++
		err := run(t.Context(), o)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("run %d: %v, want %q", runs, err, want)
		}
	}
	check("in a row: TestFlaky, TestEnds;")
	if b, err := os.ReadFile("out/TestFlaky.log"); err != nil || !strings.Contains(string(b), "each second time") {
		t.Errorf("log: %v, %q", err, b)
	}
	before, err := os.ReadFile("out/runs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	o.run = "Steady"
	check("")
	if after, _ := os.ReadFile("out/runs.jsonl"); string(after) != string(before) {
		t.Error("a test whose row is complete ran again")
	}
	o.again, o.rounds = true, 3
	check("in a row: TestSteady;")
	o.again, o.rounds = false, 1
	check("")
	o.run = "Nothing"
	check("no test of pkg matches")
	if err := os.WriteFile("out/runs.jsonl", []byte("{\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o.run = "Steady"
	check("runs.jsonl:1:")
}
