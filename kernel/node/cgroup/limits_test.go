package cgroup

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limited is a group of the kernel's own with limits, and a shell in it that has not begun: it
// runs a script when begin is called.
func limited(t *testing.T, l Limits, script string) (g *Group, shell *exec.Cmd, begin func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	path := fmt.Sprintf("/pintle-test-%d/%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	g, err := NewGroup(path, l)
	if err != nil {
		t.Skip("this machine has no cgroup that can be limited: ", err)
	}
	shell = exec.Command("sh", "-c", "read go; "+script)
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Kill(); err != nil {
			t.Error(err)
		}
		if shell.ProcessState == nil {
			_ = shell.Wait() // it was killed
		}
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		for _, dir := range g.dirs {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		}
	})
	if err := g.Add(shell.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return g, shell, func() {
		t.Helper()
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMemoryLimit: the kernel ends what takes more than its group may, and the group counts it.
// make test-vm runs it on cgroup v2.
func TestMemoryLimit(t *testing.T) {
	g, shell, begin := limited(t, Limits{MemoryBytes: 32 << 20}, "exec tail /dev/zero") // it keeps a line that never ends
	begin()
	if err := shell.Wait(); err == nil {
		t.Fatal("it took all the memory that it wanted")
	}
	if status, ok := shell.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by %s", shell.ProcessState)
	}
	if n := g.OutOfMemory(); n < 1 {
		t.Errorf("%d processes were killed for their memory", n)
	}
}

// TestMemoryInUse: what a group's processes use is counted.
func TestMemoryInUse(t *testing.T) {
	g, _, begin := limited(t, Limits{MemoryBytes: 256 << 20}, "x=$(head -c 9000000 /dev/zero | tr '\\0' x); sleep 1000")
	begin()
	for deadline := time.Now().Add(2 * time.Minute); g.MemoryBytes() < 9_000_000; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it uses %d bytes", g.MemoryBytes())
		}
	}
	if n := g.OutOfMemory(); n != 0 {
		t.Errorf("%d processes were killed for their memory", n)
	}
}

// TestPIDLimit: a group has no more processes than it may, however many are started.
func TestPIDLimit(t *testing.T) {
	const most = 8
	g, shell, begin := limited(t, Limits{PIDs: most}, "while :; do sleep 1000 & done")
	begin()
	if err := shell.Wait(); err == nil { // a shell ends when it cannot fork
		t.Error("it started all that it wanted")
	}
	if n := len(g.Processes()); n > most || n < most-2 {
		t.Errorf("%d processes, want up to %d", n, most)
	}
}

// TestCPULimit: the kernel has the ceiling, and holds a group that wants more back.
func TestCPULimit(t *testing.T) {
	g, _, begin := limited(t, Limits{MilliCPU: 50}, "while :; do :; done")
	stat := filepath.Join(g.v1["cpu"], g.path, "cpu.stat")
	if g.v2 != "" {
		stat = filepath.Join(g.dirs[0], "cpu.stat")
	}
	if _, err := os.Stat(stat); err != nil {
		t.Skip("this machine does not limit processor time: ", err)
	}
	begin()
	for deadline := time.Now().Add(2 * time.Minute); throttled(t, stat) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is never held back")
		}
	}
	if err := g.Limit(Limits{MilliCPU: 1000}); err != nil {
		t.Error(err)
	}
}

// throttled counts the periods in which a group was held back.
func throttled(t *testing.T, stat string) int {
	t.Helper()
	data, err := os.ReadFile(stat)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if number, ok := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); ok {
			n, _ := strconv.Atoi(number)
			return n
		}
	}
	return 0
}
