package plugin

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/plugin/process"
)

// TestCeilings: the operator's limits and the manifest's; the lower one counts,
// and a manifest never raises what is granted.
func TestCeilings(t *testing.T) {
	cfg := &Config{MemoryLimit: 256 << 20, ProcessMemoryLimit: 2 << 30, CallsPerSecond: 2000, PIDs: 512}
	for name, c := range map[string]struct {
		granted, asked manifest.Limits
		privileged     bool
		transport      string
		want           process.Ceilings
	}{
		"process":        {transport: manifest.TransportProcess, want: process.Ceilings{Memory: 2 << 30, Calls: 2000, PIDs: 512}},
		"module":         {transport: manifest.TransportWASM, want: process.Ceilings{Memory: 256 << 20, Calls: 2000}},
		"asks for less":  {asked: manifest.Limits{Memory: "64Mi", CPU: "250m", CallsPerSecond: 10, PIDs: 16}, transport: manifest.TransportProcess, want: process.Ceilings{Memory: 64 << 20, MilliCPU: 250, Calls: 10, PIDs: 16}},
		"asks for more":  {asked: manifest.Limits{Memory: "8Gi", CallsPerSecond: 9999, PIDs: 9999}, transport: manifest.TransportProcess, want: process.Ceilings{Memory: 2 << 30, Calls: 2000, PIDs: 512}},
		"module more":    {asked: manifest.Limits{Memory: "1Gi"}, transport: manifest.TransportWASM, want: process.Ceilings{Memory: 256 << 20, Calls: 2000}},
		"granted more":   {granted: manifest.Limits{Memory: "8Gi", CPU: "2", CallsPerSecond: 5000, PIDs: 600}, transport: manifest.TransportProcess, want: process.Ceilings{Memory: 8 << 30, MilliCPU: 2000, Calls: 5000, PIDs: 600}},
		"tightened":      {granted: manifest.Limits{Memory: "32Mi", CPU: "100m", CallsPerSecond: 5, PIDs: 8}, asked: manifest.Limits{Memory: "64Mi", CPU: "250m", CallsPerSecond: 10, PIDs: 16}, transport: manifest.TransportProcess, want: process.Ceilings{Memory: 32 << 20, MilliCPU: 100, Calls: 5, PIDs: 8}},
		"privileged":     {privileged: true, transport: manifest.TransportProcess, want: process.Ceilings{Calls: 2000}},
		"module of 8 Gi": {granted: manifest.Limits{Memory: "8Gi"}, transport: manifest.TransportWASM, want: process.Ceilings{Memory: 4 << 30, Calls: 2000}},
	} {
		got := cfg.ceilingsOf(&BundleConfig{Limits: c.granted}, &manifest.Manifest{Limits: c.asked, Privileged: c.privileged}, c.transport)
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if got := grantedFiles([]string{"/a", "/b"}, []string{"/b", "/c"}); !slices.Equal(got, []string{"/b"}) {
		t.Errorf("granted files %v", got)
	}
}

// TestUsers: a bundle keeps its user id, no two have one, and there is an end.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user ids are root's to give")
	}
	// The ids are the machine's: another run of this test waits.
	turn, err := os.OpenFile("/run/pintle-test-users.lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	range3 := process.Users{First: 60706, Count: 3, File: filepath.Join(t.TempDir(), "users.json")}
	table := &process.UserTable{Users: range3}
	given := map[int]string{}
	for _, bundle := range []string{"a", "b", "c", "a"} {
		uid, err := table.Of(bundle)
		if err != nil || uid < 60706 || uid > 60708 {
			t.Fatalf("%s: %d, %v", bundle, uid, err)
		}
		if other := given[uid]; other != "" && other != bundle {
			t.Errorf("%s and %s are both %d", bundle, other, uid)
		}
		given[uid] = bundle
	}
	if _, err := table.Of("d"); err == nil || !strings.Contains(err.Error(), "make the range larger") {
		t.Errorf("a fourth of three: %v", err)
	}
	// Another kernel on this machine, which had these too.
	if uid, err := (&process.UserTable{Users: range3}).Of("a"); err == nil {
		t.Errorf("two kernels have %d", uid)
	}
	table.Machine.Release()
	again := &process.UserTable{Users: range3}
	defer again.Machine.Release()
	for uid, bundle := range given {
		if got, err := again.Of(bundle); got != uid || err != nil {
			t.Errorf("%s is %d after a restart, %v; was %d", bundle, got, err, uid)
		}
	}
	if uid, err := (&process.UserTable{}).Of("a"); uid != 0 || err != nil {
		t.Errorf("without a range: %d, %v", uid, err)
	}
}

// TestLogBudget: a flood costs a bounded number of lines, and what was dropped is
// counted and told.
func TestLogBudget(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	budget := output.NewBudget()
	budget.Now = func() time.Time { return now }
	log := output.Budgeted(slog.New(slog.NewTextHandler(&out, nil)).With("plugin", "noisy"), budget)
	w := &output.LineWriter{Log: log}
	for range 3000 {
		if _, err := w.Write([]byte("noise\n")); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(out.String(), "line=noise"); lines != output.LogBurst {
		t.Errorf("%d lines were written, want %d", lines, output.LogBurst)
	}
	now = now.Add(output.LogReport)
	_, _ = w.Write([]byte("later\n"))
	if !strings.Contains(out.String(), "line=later") || !strings.Contains(out.String(), "plugin=noisy dropped=1999") || budget.Lost() != 2000 {
		t.Errorf("after a while, %d lost:\n%.400s", budget.Lost(), out.String()[out.Len()-400:])
	}
	// What is dropped by a bundle that then writes no more is told as well.
	for range 2000 {
		_, _ = w.Write([]byte("noise\n"))
	}
	u := &unit{budget: budget, log: slog.New(slog.NewTextHandler(&out, nil))}
	out.Reset()
	now = now.Add(output.LogReport - 1)
	if u.tellDropped(); out.Len() > 0 {
		t.Errorf("told too soon: %s", &out)
	}
	now = now.Add(1)
	lost := budget.Lost() - 2000
	if u.tellDropped(); lost == 0 || !strings.Contains(out.String(), fmt.Sprintf("dropped=%d", lost)) {
		t.Errorf("%d lines were lost without a word: %s", lost, &out)
	}
	if budget.Due() > 0 {
		t.Error("it would be told twice")
	}
	// One write without an end costs little.
	before := out.Len()
	if n, err := w.Write(bytes.Repeat([]byte("x"), 64<<20)); n != 64<<20 || err != nil || out.Len() != before || len(w.Line) > output.MaxLogLine {
		t.Errorf("a long line: %d, %v, %d kept", n, err, len(w.Line))
	}
}

// A module that has nearly all of its memory is warned of, once a start.
func TestFullMemoryIsTold(t *testing.T) {
	var out bytes.Buffer
	u := &unit{log: slog.New(slog.NewTextHandler(&out, nil)), started: 1}
	u.watchMemory(57<<20, 64<<20)
	u.watchMemory(64<<20, 0) // one whose ceiling is not known
	if out.Len() > 0 {
		t.Errorf("warned of a module with room: %s", &out)
	}
	u.watchMemory(58<<20, 64<<20)
	u.watchMemory(64<<20, 64<<20)
	if n := strings.Count(out.String(), "limit=67108864"); n != 1 {
		t.Errorf("warned %d times: %s", n, &out)
	}
	u.started++
	if u.watchMemory(64<<20, 64<<20); strings.Count(out.String(), "level=WARN") != 2 {
		t.Errorf("the next guest is not warned of: %s", &out)
	}
}
