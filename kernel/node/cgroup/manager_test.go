package cgroup

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// tree is a folder that stands for the machine's cgroup file systems.
type tree struct {
	*testing.T
	dir string
}

func (t tree) put(file, text string) {
	t.Helper()
	file = filepath.Join(t.dir, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (t tree) want(file, text string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(t.dir, file))
	if err != nil || string(got) != text {
		t.Errorf("%s holds %q (%v), want %q", file, got, err, text)
	}
}

// forget removes the files of a pod's cgroup, which the kernel does by itself when a cgroup is removed.
func (t tree) forget(glob string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(t.dir, glob))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s matches nothing (%v)", glob, err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

func (t tree) manager(mounts, own string) *Manager {
	t.Helper()
	h, err := find(strings.NewReader(strings.ReplaceAll(mounts, "ROOT", t.dir)), strings.NewReader(own), t.dir)
	if err != nil {
		t.Fatal(err)
	}
	return &Manager{hierarchies: h, root: "/r", parents: map[types.UID]string{}}
}

const unifiedMounts = "proc /proc proc rw 0 0\ncgroup2 ROOT cgroup2 rw,nosuid 0 0\ncgroup2 ROOT/elsewhere cgroup2 rw 0 0\n"

func newPod(uid, requests, limits string) *corev1.Pod {
	list := func(cpu string) corev1.ResourceList {
		if cpu == "" {
			return nil
		}
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)},
	}}}}
	p.UID = types.UID(uid)
	return p
}

// TestUnified: NODE-11: pods and classes on cgroup v2, as the kubelet lays them out and weighs them.
func TestUnified(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.put("cgroup.controllers", "cpuset cpu io memory pids\n")
	tr.put("elsewhere/cgroup.controllers", "")
	tr.put("system.slice/pintle.service/memory.swap.max", "max\n")
	m := tr.manager(unifiedMounts, "0::/system.slice/pintle.service\n")
	for _, p := range []*corev1.Pod{newPod("g", "500m", "500m"), newPod("b1", "250m", "1"), newPod("b2", "1", ""), newPod("e", "", "")} {
		if _, err := m.Ensure(p); err != nil {
			t.Fatal(err)
		}
	}
	// 1+(shares-2)*9999/262142
	tr.want("r/kubepods/podg/cpu.weight", "20")
	tr.want("r/kubepods/podg/cpu.max", "50000 100000")
	tr.want("r/kubepods/podg/memory.max", "67108864")
	tr.want("r/kubepods/burstable/podb1/cpu.weight", "10")
	tr.want("r/kubepods/burstable/podb1/cpu.max", "100000 100000")
	tr.want("r/kubepods/burstable/podb2/cpu.weight", "39")
	tr.want("r/kubepods/burstable/cpu.weight", "48") // what both weigh together
	tr.want("r/kubepods/besteffort/cpu.weight", "1")
	tr.want("r/kubepods/besteffort/pode/cpu.weight", "1")
	for _, unlimited := range []string{"burstable/podb2/cpu.max", "burstable/podb2/memory.max", "besteffort/pode/memory.max", "cpu.weight", "burstable/memory.max"} {
		if _, err := os.Stat(filepath.Join(tr.dir, "r/kubepods", unlimited)); err == nil {
			t.Errorf("%s is set", unlimited)
		}
	}
	for _, dir := range []string{"", "r", "r/kubepods", "r/kubepods/burstable"} {
		if _, err := os.Stat(filepath.Join(tr.dir, dir, "cgroup.subtree_control")); err != nil {
			t.Errorf("controllers are not handed down: %v", err)
		}
	}
	if want := map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"}; !maps.Equal(m.Unified(), want) {
		t.Errorf("containers get %v, want %v", m.Unified(), want)
	}

	if err := m.Resize(newPod("b1", "500m", "2")); err != nil {
		t.Fatal(err)
	}
	tr.want("r/kubepods/burstable/podb1/cpu.max", "200000 100000")
	tr.want("r/kubepods/burstable/cpu.weight", "58")

	// A later process finds the pods that outlived the one before.
	m = tr.manager(unifiedMounts, "0::/\n")
	tr.forget("r/kubepods/burstable/podb2/*")
	if err := m.Remove("b2"); err != nil {
		t.Fatal(err)
	}
	tr.want("r/kubepods/burstable/cpu.weight", "20")
	if want := map[string]string{"memory.oom.group": "1"}; !maps.Equal(m.Unified(), want) {
		t.Errorf("without an account of swap containers get %v, want %v", m.Unified(), want)
	}
}

// TestHybrid: the unified hierarchy beside v1 holds no controllers; limits go into those of v1.
func TestHybrid(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.put("unified/cgroup.controllers", "")
	m := tr.manager("cgroup ROOT/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup ROOT/memory cgroup rw,memory 0 0\n"+
		"cgroup ROOT/systemd cgroup rw,name=systemd 0 0\ncgroup2 ROOT/unified cgroup2 rw 0 0\n"+
		"cgroup ROOT/again cgroup rw,cpu,cpuacct 0 0\n", "")
	for i := range 2 {
		if _, err := m.Ensure(newPod(fmt.Sprint("b", i), "250m", "1")); err != nil {
			t.Fatal(err)
		}
	}
	tr.want("cpu/r/kubepods/burstable/podb1/cpu.shares", "256")
	tr.want("cpu/r/kubepods/burstable/podb1/cpu.cfs_quota_us", "100000")
	tr.want("cpu/r/kubepods/burstable/cpu.shares", "512")
	tr.want("memory/r/kubepods/burstable/podb1/memory.limit_in_bytes", "67108864")
	if m.Unified() != nil {
		t.Errorf("containers get files of v2: %v", m.Unified())
	}
	if _, err := os.Stat(filepath.Join(tr.dir, "again")); err == nil {
		t.Error("a second mount of a controller is used")
	}
	tr.forget("*/r/kubepods/burstable/podb0/*")
	if err := m.Remove("b0"); err != nil {
		t.Fatal(err)
	}
	tr.want("cpu/r/kubepods/burstable/cpu.shares", "256")
	tr.forget("*/r/kubepods/burstable/podb1/*")
	tr.forget("cpu/r/kubepods/burstable/cpu.shares")
	if err := m.Remove("b1"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"cpu", "memory"} {
		if left, err := filepath.Glob(filepath.Join(tr.dir, dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}

// TestEnsureAgain: what failed half-way is done again.
func TestEnsureAgain(t *testing.T) {
	tr := tree{t, t.TempDir()}
	tr.put("cgroup.controllers", "memory")
	tr.put("r", "in the way")
	m := tr.manager(unifiedMounts, "")
	if _, err := m.Ensure(newPod("g", "1", "1")); err == nil {
		t.Fatal("no cgroup can be made, and nobody says so")
	}
	tr.forget("r")
	if p, err := m.Ensure(newPod("g", "1", "1")); err != nil || p != "/r/kubepods/podg" {
		t.Fatalf("%q %v", p, err)
	}
	tr.want("r/kubepods/podg/memory.max", "67108864")
}

func TestNoHierarchy(t *testing.T) {
	if _, err := find(strings.NewReader("proc /proc proc rw 0 0\n"), strings.NewReader(""), unifiedMount); err == nil || !strings.Contains(err.Error(), "neither cgroup v2") {
		t.Errorf("got %v", err)
	}
}

// TestWeight: the bounds of shares are the bounds of weights.
func TestWeight(t *testing.T) {
	for s, w := range map[int64]int64{2: 1, 1024: 39, 262144: 10000} {
		if weight(s) != w || weight(shares(w)) != w {
			t.Errorf("%d shares weigh %d, want %d; back and forth %d", s, weight(s), w, weight(shares(w)))
		}
	}
}

// TestRemoveEndsStrays: a process that is left in a pod's cgroup when the pod is over, as of a sandbox whose making was
// cut short, is no reason to keep the cgroup.
func TestRemoveEndsStrays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroups need root")
	}
	root := fmt.Sprint("/pintle-test-strays-", os.Getpid())
	m, err := New(root)
	if err != nil {
		t.Skip("this machine has no cgroups: ", err)
	}
	pod := newPod("u1", "", "")
	if _, err := m.Ensure(pod); err != nil {
		t.Skip("this machine lets nobody make cgroups: ", err)
	}
	stray, err := m.group(filepath.Join(m.path(pod), "sandbox"), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := stray.Add(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := m.Remove(pod.UID); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Error("the process goes on")
		_ = cmd.Process.Kill()
		<-ended
	}
	for _, mount := range m.all {
		if _, err := os.Stat(filepath.Join(mount, root)); err == nil {
			t.Errorf("left: %s in %s", root, mount)
		}
	}
}

// TestLimitsOfAllPods: H5: what is reserved is out of reach of all pods together, on v2 and v1, also once their cgroup
// was gone for a while.
func TestLimitsOfAllPods(t *testing.T) {
	limits := Limits{MemoryBytes: 3 << 30, MilliCPU: 1900, PIDs: 31000}
	tr := tree{t, t.TempDir()}
	tr.put("cgroup.controllers", "cpu memory pids")
	m := tr.manager(unifiedMounts, "")
	if err := m.Enforce(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tr.dir, "r/kubepods/memory.max")); err == nil {
		t.Error("a limit is set that nobody asked for")
	}
	m.SetLimits(limits)
	if err := m.Enforce(); err != nil {
		t.Fatal(err)
	}
	want := func() {
		t.Helper()
		tr.want("r/kubepods/memory.max", "3221225472")
		tr.want("r/kubepods/pids.max", "31000")
		tr.want("r/kubepods/cpu.weight", "75") // 1945 shares
	}
	want()
	tr.forget("r/kubepods/*.max")
	tr.forget("r/kubepods/cpu.weight")
	if _, err := m.Ensure(newPod("g", "1", "1")); err != nil {
		t.Fatal(err)
	}
	want()

	tr = tree{t, t.TempDir()}
	m = tr.manager("cgroup ROOT/cpu cgroup rw,cpu 0 0\ncgroup ROOT/memory cgroup rw,memory 0 0\ncgroup ROOT/pids cgroup rw,pids 0 0\n", "")
	m.SetLimits(limits)
	if err := m.Enforce(); err != nil {
		t.Fatal(err)
	}
	tr.want("cpu/r/kubepods/cpu.shares", "1945")
	tr.want("memory/r/kubepods/memory.limit_in_bytes", "3221225472")
	tr.want("pids/r/kubepods/pids.max", "31000")
	tr.forget("*/r/kubepods/*")
	m.Leave()
	for _, dir := range []string{"cpu", "memory", "pids"} {
		if left, err := filepath.Glob(filepath.Join(tr.dir, dir, "*")); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}
