package plugin

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// runWorker runs the test bundle's module in a worker.
func runWorker(t testing.TB, predicates ...string) (*Host, int) {
	t.Helper()
	cfg := testConfig(t, manifest.TransportWASM, predicates...)
	cfg.WASMWorker = WASMWorkerAll
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, cfg, source)
	if err := h.Source("s").Policy().Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	pid := int(h.Plugins()[0].Status.PID)
	if pid <= 0 || pid == os.Getpid() {
		t.Fatalf("the module has process %d", pid)
	}
	return h, pid
}

// awaitExit waits until a process is no more.
func awaitExit(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 120_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("process %d goes on: %v", pid, err)
		}
		return
	}
}

// halt stops a process and waits until each of its threads stands: the signal is only
// sent when kill returns, and a thread that runs may answer one more question.
func halt(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	poll(t, "it is stopped", func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			return false
		}
		for _, task := range tasks {
			if stat, err := os.ReadFile(task); err != nil || !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return true
	})
}

// awaitAnother waits until the bundle runs in another process.
func awaitAnother(t testing.TB, h *Host, pid int) int {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s := h.Plugins()[0].Status
		if s.State == v1alpha1.PluginStateReady && int(s.PID) != pid {
			return int(s.PID)
		}
		if time.Now().After(deadline) {
			t.Fatalf("it did not come back: %+v", s)
		}
	}
}

// A module answers in a worker as it does in the kernel's process: the same tests pass.
// TEST_WASM_WORKER=all runs all of them so.
func TestInWorkers(t *testing.T) {
	before := testWorker
	defer func() { testWorker = before }()
	testWorker = WASMWorkerAll
	// Short names: sockets lie below folders that are named after them.
	for name, test := range map[string]func(*testing.T){
		"review":  TestAdmission,
		"points":  TestPointsAnswerAlike,
		"class":   TestPodsOfAClass,
		"parts":   TestLargeReplicaIsFedInParts,
		"policy":  TestPolicyAnswersAlike,
		"profile": TestProfileConfiguration,
		"change":  TestConfigureRunningGuest,
		"control": TestReconcilers,
		"deny":    TestHostFunctionsAreWithheld,
		"hostile": TestHostileGuestsAreContained,
	} {
		t.Run(name, test)
	}
}

// send sends a signal to a process.
func send(signal syscall.Signal) func(*testing.T, int) {
	return func(t *testing.T, pid int) {
		t.Helper()
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker that dies or hangs is replaced: its module is fed in full and answers again,
// and what it was asked meanwhile is refused.
func TestWorkerComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		strike func(t *testing.T, pid int)
		asks   bool // it is found out by a call
	}{
		"killed": {send(syscall.SIGKILL), false}, "ended": {send(syscall.SIGTERM), false}, "stopped": {halt, true},
	} {
		t.Run(name, func(t *testing.T) {
			h, pid := runWorker(t, "FitsCPU")
			p := h.Source("s").Policy()
			waitSound(t, p, 0)
			before := p.Generation()
			hurry(t, p, time.Second)
			c.strike(t, pid)
			if c.asks {
				out := make([]uint32, 1)
				if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] == 0 {
					t.Errorf("verdict %d, %v; want that it is not available", out[0], err)
				}
			}
			awaitExit(t, pid)
			awaitAnother(t, h, pid)
			waitSound(t, p, 0)
			if s := h.Plugins()[0].Status; s.Restarts < 1 || p.Generation() == before {
				t.Errorf("restarts %d, generation %d (was %d)", s.Restarts, p.Generation(), before)
			}
		})
	}
}

// A trap, a loop and memory without end cost the instance, not the process.
func TestWorkerSurvivesItsModule(t *testing.T) {
	for _, name := range []string{"Panics", "LoopsForEver", "AllocatesWithoutEnd", "Recurses"} {
		t.Run(name, func(t *testing.T) {
			h, pid := runWorker(t, name, "FitsCPU")
			p := h.Source("s").Policy()
			hurry(t, p, 4*time.Second) // a worker has half of it more to say that it is up
			out := make([]uint32, 1)
			if err := p.Filter(t.Context(), 0, 7, []uint32{0}, out); err != nil || out[0] == 0 {
				t.Fatalf("verdict %d, %v", out[0], err)
			}
			waitSound(t, p, 1)
			if s := h.Plugins()[0].Status; int(s.PID) != pid {
				t.Errorf("process %d, was %d: %s", s.PID, pid, s.Message)
			}
		})
	}
}

// The process of a module has what a plugin's process has, and that is little.
func TestWorkerIsConfined(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a user of its own and namespaces need root")
	}
	h, pid := runWorker(t, "FitsCPU")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"CapEff": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
		if !strings.Contains(string(status), key+":\t"+want+"\n") {
			t.Errorf("%s is not %s:\n%s", key, want, status)
		}
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "Uid:\t"); ok && strings.HasPrefix(rest, "0\t") {
			t.Errorf("user: %s", rest)
		}
	}
	root := fmt.Sprintf("/proc/%d/root", pid)
	kept, err := filepath.Abs(filepath.Join("..", "..", "build", "modules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{kept, "/root", "/home", "/var", "/etc/shadow", catalog} {
		if _, err := os.Stat(root + hidden); err == nil {
			t.Errorf("it sees %s", hidden)
		}
	}
	for _, ns := range []string{"mnt", "net", "pid", "ipc", "uts"} {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
		mine, mineErr := os.Readlink("/proc/self/ns/" + ns)
		if err != nil || mineErr != nil || its == mine {
			t.Errorf("namespace %s: %s, %v", ns, its, errors.Join(err, mineErr))
		}
	}
	// Its descriptors are pipes, sockets of the kernel's and memory: no file and no
	// folder of the machine.
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name()))
		if err == nil && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "/memfd:") && !strings.HasPrefix(to, "/dev/null") {
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
	_ = h
}

// A worker cannot put machine code into the cache: what a worker compiles stays there.
func TestWorkerKeepsNothing(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.WASMWorker = WASMWorkerAll
	data := t.TempDir()
	cfg.Modules = modulecache.Of(data, nil)
	runHost(t, cfg, &testSource{delta: replica(5, 1)})
	entries, err := filepath.Glob(filepath.Join(data, "plugins", "cache", "*"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("cache: %v, %v", entries, err)
	}
	if info, err := os.Stat(entries[0]); err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Errorf("%v, %v", info, err)
	}
	// Where nothing is kept, the worker compiles.
	cfg = testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.WASMWorker, cfg.Modules = WASMWorkerAll, nil
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, cfg, source)
	if err := h.Source("s").Policy().Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	waitSound(t, h.Source("s").Policy(), 0)
}

// Only modules of installed bundles run apart where that is what is configured.
func TestWhichModulesRunApart(t *testing.T) {
	for _, c := range []struct {
		which     string
		installed bool
		apart     bool
	}{
		{"", true, false}, {WASMWorkerNone, true, false}, {WASMWorkerInstalled, false, false},
		{WASMWorkerInstalled, true, true}, {WASMWorkerAll, false, true},
	} {
		cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
		cfg.WASMWorker = c.which
		if c.installed {
			cfg.Bundles[0].Directory, cfg.Bundles[0].Placed = filepath.Join(catalog, "guest"), true
		}
		h := runHost(t, cfg, &testSource{delta: replica(5, 1)})
		if pid := h.Plugins()[0].Status.PID; (pid > 0) != c.apart {
			t.Errorf("%q, installed %v: process %d", c.which, c.installed, pid)
		}
	}
}

// A kernel that is killed leaves no worker behind.
func TestWorkerEndsWithItsKernel(t *testing.T) {
	const asked = "TEST_WORKER_OF_A_KERNEL"
	if os.Getenv(asked) != "" {
		_, pid := runWorker(t, "FitsCPU")
		fmt.Printf("worker %d\n", pid)
		select {} // until it is killed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestWorkerEndsWithItsKernel$", "-test.timeout=10m")
	// It is killed, so what it makes for its tests is removed here.
	tmp, err := os.MkdirTemp("", "ptw")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	cmd.Env = append(os.Environ(), asked+"=1", "TMPDIR="+tmp)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	lines := bufio.NewScanner(out)
	for pid == 0 && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "worker "); ok {
			pid, _ = strconv.Atoi(rest)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if pid == 0 {
		t.Fatal("no worker started")
	}
	awaitExit(t, pid)
}
