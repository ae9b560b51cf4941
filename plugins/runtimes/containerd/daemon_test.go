package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemonOf is a layout whose daemon is a script, and the script's start.
func daemonOf(t *testing.T, script string) (layout, *child) {
	t.Helper()
	dir := t.TempDir()
	l := layout{tools: dir, socket: filepath.Join(dir, "socket"), pidFile: filepath.Join(dir, "pid"), config: filepath.Join(dir, "config"), logFile: filepath.Join(dir, "log")}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "containerd"), []byte("#!/bin/bash\n"+script+"\n"), 0o755),
		os.WriteFile(l.logFile, []byte("of a former run\n"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	c, err := start(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(c.pid, syscall.SIGKILL)
		<-c.ended
	})
	return l, c
}

// TestDaemonEndsAtOnce: the fault says how the daemon ended, and what it wrote in this run.
func TestDaemonEndsAtOnce(t *testing.T) {
	for script, want := range map[string]string{
		"echo one >&2; echo two; exit 3":                            "containerd ended at once (exit status 3); its log LOG ends with: one | two",
		"kill -9 $$":                                                "containerd ended at once (signal: killed); it wrote nothing to its log LOG",
		"for i in 1 2 3 4 5; do echo $i; done; exit 1":              "containerd ended at once (exit status 1); its log LOG ends with: 3 | 4 | 5",
		"head -c 9000 /dev/zero | tr '\\0' x; echo; echo y; exit 1": "| y",
	} {
		l, c := daemonOf(t, script)
		_, err := await(t.Context(), l, c)
		if err == nil {
			t.Fatalf("%s: no fault", script)
		}
		got := strings.ReplaceAll(err.Error(), l.logFile, "LOG")
		if got != want && !(strings.HasPrefix(want, "|") && strings.HasSuffix(got, "x "+want)) {
			t.Errorf("%s:\ngot  %s\nwant %s", script, got, want)
		}
		if len(got) > toldBytes+200 {
			t.Errorf("%s: %d bytes", script, len(got))
		}
	}
}

// TestDaemonIsSlow: a daemon that runs has not ended, though its arguments cannot be seen, as
// within execve(2).
func TestDaemonIsSlow(t *testing.T) {
	l, c := daemonOf(t, "echo begun; exec -a other sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := await(ctx, l, c)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "ends with: begun") {
		t.Errorf("got %v", err)
	}
	if _, err := await(t.Context(), l, nil); err == nil || !strings.Contains(err.Error(), "containerd has ended") {
		t.Errorf("one that another process started: %v", err)
	}
}
