package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/container"
)

// Manager makes and removes pod cgroups.
type Manager struct {
	root    string
	v2      string            // mount point of the unified hierarchy when it has controllers
	v1      map[string]string // controller → mount point
	all     []string          // every hierarchy: the runtime makes cgroups in those without controllers too
	mu      sync.Mutex
	parents map[types.UID]string
}

// New finds the mounted hierarchies. root is a cgroup path such as "/" or "/pintle".
func New(root string) (*Manager, error) {
	m := &Manager{root: root, v1: map[string]string{}, parents: map[types.UID]string{}}
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("find cgroup hierarchies: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		if fields[2] == "cgroup" || fields[2] == "cgroup2" {
			m.all = append(m.all, fields[1])
		}
		switch fields[2] {
		case "cgroup":
			for _, option := range strings.Split(fields[3], ",") {
				switch option {
				case "cpu", "memory", "pids", "cpuset", "cpuacct", "blkio", "devices", "freezer", "hugetlb", "net_cls", "net_prio", "perf_event", "rdma", "misc":
					m.v1[option] = fields[1]
				}
			}
		case "cgroup2":
			if data, err := os.ReadFile(filepath.Join(fields[1], "cgroup.controllers")); err == nil && strings.Contains(string(data), "memory") {
				m.v2 = fields[1]
			}
		}
	}
	if m.v2 == "" && m.v1["cpu"] == "" {
		return nil, errors.New("find cgroup hierarchies: neither cgroup v2 nor a v1 cpu controller is mounted")
	}
	return m, lines.Err()
}

// path is the pod's cgroup path, the same in each hierarchy.
func (m *Manager) path(pod *corev1.Pod) string {
	parts := []string{m.root, "kubepods"}
	switch container.QOS(pod) {
	case corev1.PodQOSBurstable:
		parts = append(parts, "burstable")
	case corev1.PodQOSBestEffort:
		parts = append(parts, "besteffort")
	}
	return filepath.Join(append(parts, "pod"+string(pod.UID))...)
}

// Ensure makes the pod's cgroup with its limits and answers its path for the runtime.
func (m *Manager) Ensure(pod *corev1.Pod) (string, error) {
	p := m.path(pod)
	m.mu.Lock()
	done := m.parents[pod.UID] == p
	m.parents[pod.UID] = p
	m.mu.Unlock()
	if done {
		return p, nil
	}
	if m.v2 != "" {
		if err := m.delegate(p); err != nil {
			return "", err
		}
		return p, m.limit(p, pod)
	}
	for controller, mount := range m.v1 {
		if controller == "cpuset" {
			continue // needs its parents' values first; the runtime does that where it wants cpusets
		}
		if err := os.MkdirAll(filepath.Join(mount, p), 0o755); err != nil {
			return "", fmt.Errorf("make cgroup %s: %w", p, err)
		}
	}
	return p, m.limit(p, pod)
}

// Resize sets the limits of a pod's cgroup anew, where it has one.
func (m *Manager) Resize(pod *corev1.Pod) error { return m.limit(m.path(pod), pod) }

func (m *Manager) limit(p string, pod *corev1.Pod) error {
	r := container.PodResources(pod)
	if m.v2 != "" {
		// The kernel's weight for v1 shares, as runc converts them.
		weight := 1 + ((r.CpuShares-2)*9999)/262142
		dir := filepath.Join(m.v2, p)
		errs := []error{write(dir, "cpu.weight", strconv.FormatInt(weight, 10))}
		if r.CpuQuota > 0 {
			errs = append(errs, write(dir, "cpu.max", fmt.Sprintf("%d %d", r.CpuQuota, r.CpuPeriod)))
		}
		if r.MemoryLimitInBytes > 0 {
			errs = append(errs, write(dir, "memory.max", strconv.FormatInt(r.MemoryLimitInBytes, 10)))
		}
		return errors.Join(errs...)
	}
	var errs []error
	if mount := m.v1["cpu"]; mount != "" {
		errs = append(errs, write(filepath.Join(mount, p), "cpu.shares", strconv.FormatInt(r.CpuShares, 10)))
		if r.CpuQuota > 0 {
			errs = append(errs, write(filepath.Join(mount, p), "cpu.cfs_period_us", strconv.FormatInt(r.CpuPeriod, 10)),
				write(filepath.Join(mount, p), "cpu.cfs_quota_us", strconv.FormatInt(r.CpuQuota, 10)))
		}
	}
	if mount := m.v1["memory"]; mount != "" && r.MemoryLimitInBytes > 0 {
		errs = append(errs, write(filepath.Join(mount, p), "memory.limit_in_bytes", strconv.FormatInt(r.MemoryLimitInBytes, 10)))
	}
	return errors.Join(errs...)
}

// delegate makes the path on v2, turning controllers on at each step.
func (m *Manager) delegate(p string) error {
	dir := m.v2
	for _, part := range strings.Split(strings.Trim(p, "/"), "/") {
		// Best effort a controller: one that the host does not hand down is done without.
		for _, c := range []string{"+cpu", "+memory", "+pids", "+cpuset", "+io"} {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(c), 0o644)
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup %s: %w", p, err)
		}
	}
	return nil
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

// Remove removes the pod's cgroups of any class; they must be empty of processes. Those of the classes and kubepods
// itself go when they are empty too.
func (m *Manager) Remove(uid types.UID) error {
	m.mu.Lock()
	delete(m.parents, uid)
	m.mu.Unlock()
	var errs []error
	for _, mount := range m.all {
		base := filepath.Join(mount, m.root, "kubepods")
		for _, class := range []string{"", "burstable", "besteffort"} {
			errs = append(errs, removeTree(filepath.Join(base, class, "pod"+string(uid))))
		}
		_ = os.Remove(filepath.Join(base, "burstable"))
		_ = os.Remove(filepath.Join(base, "besteffort"))
		_ = os.Remove(base)
		if m.root != "/" {
			_ = os.Remove(filepath.Join(mount, m.root))
		}
	}
	return errors.Join(errs...)
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
