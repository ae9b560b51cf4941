package main

import (
	"os"
	"os/exec"
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
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("add", "go.mod")
	git("commit", "-qm", "first")
	if err := os.WriteFile("go.mod", []byte("module flaky\n\ngo 1.26.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	head := git("rev-parse", "--short", "HEAD")
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
	if b, err := os.ReadFile("out/runs.jsonl"); err != nil || strings.Count(string(b), `"commit":"`+head+`-changed"`) != strings.Count(string(b), "\n") {
		t.Errorf("each result names the commit %s and that files changed since: %v, %s", head, err, b)
	}
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

// What is left is what each test needs, as fast as the rounds before went.
func TestEstimatesWhatIsLeft(t *testing.T) {
	r := &record{tests: map[string]*tally{
		"TestShort": {row: 18, seconds: []float64{9, 10, 11}},
		"TestLong":  {row: 0, seconds: []float64{100, 60}},
	}}
	names := []string{"TestShort", "TestLong", "TestNew"}
	for _, c := range []struct {
		rounds int
		waits  float64
		want   time.Duration
	}{
		{40, 1, 2*10*time.Second + 20*100*time.Second},
		{40, 0.25, 505 * time.Second},
		{1, 1, 110 * time.Second},
	} {
		if got, unknown := r.left(names, 20, c.rounds, c.waits); got != c.want || unknown != 1 {
			t.Errorf("%d rounds at %v: %v and %d unknown, want %v and 1", c.rounds, c.waits, got, unknown, c.want)
		}
	}
	for want, got := range map[string]string{
		"about 9m0s left, without 1 tests that have not run yet": left(540*time.Second, 1),
		"about 2m0s left":           left(2*time.Minute, 0),
		"how long is not known yet": left(0, 3),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
