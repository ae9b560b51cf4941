package confinement

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMissing asks for namespaces as a user who may make none: nothing starts, the
// error names the key, and what the key waives is told.
func TestMissing(t *testing.T) {
	if os.Geteuid() == 0 {
		// Once more, as somebody without rights.
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		home, err := os.MkdirTemp("/tmp", "missing")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		program := filepath.Join(home, "test")
		if err := errors.Join(exec.Command("cp", exe, program).Run(), os.Chmod(program, 0o755), os.Chmod(home, 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "-test.run=^TestMissing$", "-test.v")
		cmd.Dir, cmd.Env = "/tmp", []string{"PATH=/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: attacker, Gid: attacker}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestMissing") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := func(waived ...string) (*Process, error) {
		w, err := Waive(waived)
		if err != nil {
			t.Fatal(err)
		}
		nothing := func(int) error { return nil }
		p := &Process{Path: "/usr/bin/true", Sockets: t.TempDir(), Folders: &Folders{Staging: t.TempDir()}, Timeout: time.Minute, Waived: w, Enter: nothing, Check: nothing}
		cmd, err := p.Start()
		if err == nil {
			err = cmd.Wait()
		}
		return p, err
	}
	for _, waived := range [][]string{nil, {"cgroup", "seccomp"}} {
		if _, err := start(waived...); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "plugins.runWithout: [namespaces]") {
			t.Errorf("%v waived: %v", waived, err)
		}
	}
	p, err := start("namespaces")
	if err != nil || !slices.Equal(p.Without, []Wall{Namespaces}) {
		t.Errorf("without %v, %v", p.Without, err)
	}
	if _, err := Waive([]string{"everything"}); err == nil {
		t.Error("everything is waived")
	}
}
