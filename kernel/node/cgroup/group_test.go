package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestGroupFiles: what is written on cgroup v2.
func TestGroupFiles(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.put("cgroup.controllers", "cpuset cpu io memory pids\n")
	h, err := find(strings.NewReader(strings.ReplaceAll(unifiedMounts, "ROOT", tr.dir)), strings.NewReader("0::/\n"), tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.group("/p/greeter", Limits{MemoryBytes: 64 << 20, MilliCPU: 250, PIDs: 32})
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "32", "cpu.max": "25000 100000",
	} {
		tr.want("p/greeter/"+file, text)
	}
	tr.put("p/greeter/memory.events", "low 0\noom 3\noom_kill 2\n")
	if n := g.OutOfMemory(); n != 2 {
		t.Errorf("%d processes were killed for their memory, want 2", n)
	}
	if err := g.Limit(Limits{}); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"memory.max": "max", "pids.max": "max", "cpu.max": "max 100000"} {
		tr.want("p/greeter/"+file, text)
	}
}

// TestGroupEndsWhatForks: a process that leaves its process group and session is
// still in its cgroup.
func TestGroupEndsWhatForks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	path := "/pintle-test-" + strconv.Itoa(os.Getpid())
	g, err := NewGroup(path+"/one", Limits{PIDs: 20})
	if err != nil {
		t.Skip("this machine lets nobody make cgroups: ", err)
	}
	t.Cleanup(func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob("/sys/fs/cgroup/*" + path); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	cmd := exec.Command("sh", "-c", "read go; for i in 1 2 3; do setsid sleep 1000 & done; sleep 1000")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); len(g.Processes()) < 5; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes %v, want five", g.Processes())
		}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	<-done
	if left := g.Processes(); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
	if err := Sweep(path); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*" + path + "/one"); len(left) > 0 {
		t.Errorf("not swept: %v", left)
	}
}
