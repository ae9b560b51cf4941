package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/container"
)

// Manager makes and removes pod cgroups.
type Manager struct {
	*hierarchies
	root    string
	mu      sync.Mutex // held while a class comes, goes or is weighed
	parents map[types.UID]string
	limits  Limits // of all pods together
}

// New finds the mounted hierarchies. root is a cgroup path such as "/" or "/pintle".
func New(root string) (*Manager, error) {
	h, err := open()
	if err != nil {
		return nil, err
	}
	return &Manager{hierarchies: h, root: root, parents: map[types.UID]string{}}, nil
}

// SetLimits says what all pods together may have. It is set with the next pod, and by Enforce.
func (m *Manager) SetLimits(l Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limits = l
}

// Enforce makes the cgroup of all pods with its limits. Pods that have more memory already keep a limit of v1 from being
// set, which is an error.
func (m *Manager) Enforce() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.make(filepath.Join(m.root, kubepods)); err != nil {
		return err
	}
	return m.enforce()
}

// enforce sets the limits of the cgroup of all pods, which is there. CPUs are a share and not a ceiling: pods may have
// what others leave. The caller holds mu.
func (m *Manager) enforce() error {
	if m.limits == (Limits{}) {
		return nil
	}
	p := filepath.Join(m.root, kubepods)
	errs := []error{m.setShares(p, min(max(m.limits.MilliCPU*1024/1000, minShares), maxShares))}
	set := func(controller, v1, v2 string, n int64) {
		if n <= 0 {
			return
		}
		mount, file := m.v1[controller], v1
		if m.v2 != "" {
			mount, file = m.v2, v2
		}
		if mount != "" {
			errs = append(errs, write(filepath.Join(mount, p), file, strconv.FormatInt(n, 10)))
		}
	}
	set("memory", "memory.limit_in_bytes", "memory.max", m.limits.MemoryBytes)
	set("pids", "pids.max", "pids.max", m.limits.PIDs)
	return errors.Join(errs...)
}

// Memory is what all pods use, without the page cache that can be dropped, and what they may use; ok is false where they
// have no limit.
func (m *Manager) Memory() (used, limit int64, ok bool) {
	m.mu.Lock()
	limit = m.limits.MemoryBytes
	m.mu.Unlock()
	mount, file, inactive := m.v1["memory"], "memory.usage_in_bytes", "total_inactive_file "
	if m.v2 != "" {
		mount, file, inactive = m.v2, "memory.current", "inactive_file "
	}
	if limit <= 0 || mount == "" {
		return 0, 0, false
	}
	dir := filepath.Join(mount, m.root, kubepods)
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, 0, false
	}
	if used, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil {
		return 0, 0, false
	}
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil {
		return 0, 0, false
	}
	for line := range strings.Lines(string(stat)) {
		if number, found := strings.CutPrefix(line, inactive); found {
			n, _ := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			used = max(used-n, 0)
		}
	}
	return used, limit, true
}

// Unified is what the runtime writes into each container's cgroup besides its limits, by file, on cgroup v2: a
// container that runs out of memory ends whole, and none may swap (KEP-2400, NoSwap). Empty on v1, where containerd
// keeps containers with a memory limit from swapping by itself.
func (m *Manager) Unified() map[string]string {
	if m.v2 == "" {
		return nil
	}
	files := map[string]string{"memory.oom.group": "1"}
	if m.swap {
		files["memory.swap.max"] = "0"
	}
	return files
}

// path is the pod's cgroup path, the same in each hierarchy.
func (m *Manager) path(pod *corev1.Pod) string {
	return filepath.Join(m.root, kubepods, class(pod), "pod"+string(pod.UID))
}

// Ensure makes the pod's cgroup with its limits and answers its path for the runtime.
func (m *Manager) Ensure(pod *corev1.Pod) (string, error) {
	p := m.path(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parents[pod.UID] == p {
		return p, nil
	}
	if err := m.make(p); err != nil {
		return "", err
	}
	// The cgroup of all pods may just have been made. That pods have too much already is no reason to refuse one: the
	// node's room is the scheduler's business and admission's.
	if err := m.enforce(); err != nil && !errors.Is(err, syscall.EBUSY) {
		return "", err
	}
	if err := errors.Join(m.limit(p, pod), m.weigh(class(pod))); err != nil {
		return "", err
	}
	m.parents[pod.UID] = p
	return p, nil
}

// Resize sets the limits of a pod's cgroup anew, where it has one.
func (m *Manager) Resize(pod *corev1.Pod) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.limit(m.path(pod), pod), m.weigh(class(pod)))
}

func (m *Manager) make(p string) error {
	if m.v2 != "" {
		return m.delegate(p)
	}
	for controller, mount := range m.v1 {
		if controller == "cpuset" {
			continue // needs its parents' values first; the runtime does that where it wants cpusets
		}
		if err := os.MkdirAll(filepath.Join(mount, p), 0o755); err != nil {
			return fmt.Errorf("make cgroup %s: %w", p, err)
		}
	}
	return nil
}

func (m *Manager) limit(p string, pod *corev1.Pod) error {
	r := container.PodResources(pod)
	errs := []error{m.setShares(p, r.CpuShares)}
	if m.v2 != "" {
		dir := filepath.Join(m.v2, p)
		if r.CpuQuota > 0 {
			errs = append(errs, write(dir, "cpu.max", fmt.Sprintf("%d %d", r.CpuQuota, r.CpuPeriod)))
		}
		if r.MemoryLimitInBytes > 0 {
			errs = append(errs, write(dir, "memory.max", strconv.FormatInt(r.MemoryLimitInBytes, 10)))
		}
		return errors.Join(errs...)
	}
	if mount := m.v1["cpu"]; mount != "" && r.CpuQuota > 0 {
		errs = append(errs, write(filepath.Join(mount, p), "cpu.cfs_period_us", strconv.FormatInt(r.CpuPeriod, 10)),
			write(filepath.Join(mount, p), "cpu.cfs_quota_us", strconv.FormatInt(r.CpuQuota, 10)))
	}
	if mount := m.v1["memory"]; mount != "" && r.MemoryLimitInBytes > 0 {
		errs = append(errs, write(filepath.Join(mount, p), "memory.limit_in_bytes", strconv.FormatInt(r.MemoryLimitInBytes, 10)))
	}
	return errors.Join(errs...)
}

func write(dir, file, value string) error {
	err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil // the controller is not there
	}
	if err != nil {
		return fmt.Errorf("set %s of cgroup %s: %w", file, dir, err)
	}
	return nil
}

// Remove removes the pod's cgroups of any class. The pod is over: a process that is in them still, which no container
// and no sandbox accounts for any more, is killed. Those of the classes and kubepods itself go when they are empty too.
func (m *Manager) Remove(uid types.UID) error {
	m.mu.Lock()
	delete(m.parents, uid)
	m.mu.Unlock()
	var errs []error
	for _, mount := range m.all {
		for _, class := range []string{guaranteed, burstable, bestEffort} {
			dir := filepath.Join(mount, m.root, kubepods, class, "pod"+string(uid))
			err := removeTree(dir)
			if errors.Is(err, syscall.EBUSY) && killTree(dir) {
				err = removeTree(dir)
			}
			errs = append(errs, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave()
	return errors.Join(append(errs, m.weigh(burstable))...)
}

// Leave removes the cgroups of the classes and of all pods where no pod is in them.
func (m *Manager) Leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leave()
}

func (m *Manager) leave() {
	for _, mount := range m.all {
		base := filepath.Join(mount, m.root, kubepods)
		_ = os.Remove(filepath.Join(base, burstable))
		_ = os.Remove(filepath.Join(base, bestEffort))
		_ = os.Remove(base)
		if m.root != "/" {
			_ = os.Remove(filepath.Join(mount, m.root))
		}
	}
}

// killTree kills the processes below a cgroup directory and reports whether there were any.
func killTree(dir string) (killed bool) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // what went meanwhile has no processes
		}
		for _, pid := range processes(path) {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
		}
		return nil
	})
	return killed
}

// removeTree removes cgroup directories, children first. A cgroup whose last process is just ending is busy for a
// moment.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for try := 0; ; try++ {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if try == 20 {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
