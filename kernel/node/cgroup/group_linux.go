package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endPatience is how long the processes of a group may take to end once killed.
const endPatience = 5 * time.Second

// Limits are the ceilings of a group; zero is none.
type Limits struct {
	MemoryBytes int64
	MilliCPU    int64 // thousandths of a CPU
	PIDs        int64 // processes and threads
}

// Group is a cgroup for processes that belong to no pod, such as one plugin.
type Group struct {
	*hierarchies
	path string
	dirs []string // its folder in each hierarchy that limits something
}

// NewGroup makes a cgroup at path, or takes over what is there, and sets its
// limits. Processes that a former one left in it are killed.
func NewGroup(path string, l Limits) (*Group, error) {
	h, err := open()
	if err != nil {
		return nil, err
	}
	return h.group(path, l)
}

func (h *hierarchies) group(path string, l Limits) (*Group, error) {
	g := &Group{hierarchies: h, path: path}
	if h.v2 != "" {
		if err := h.delegate(path); err != nil {
			return nil, err
		}
		g.dirs = []string{filepath.Join(h.v2, path)}
	} else {
		for _, controller := range []string{"cpu", "memory", "pids"} {
			if mount := h.v1[controller]; mount != "" {
				dir := filepath.Join(mount, path)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return nil, fmt.Errorf("make cgroup %s: %w", path, err)
				}
				g.dirs = append(g.dirs, dir)
			}
		}
	}
	return g, errors.Join(g.Kill(), g.Limit(l))
}

// Limit sets the ceilings anew.
func (g *Group) Limit(l Limits) error {
	const period = 100_000 // µs
	// or is a ceiling, or the file's word for none.
	or := func(n int64, none string) string {
		if n > 0 {
			return strconv.FormatInt(n, 10)
		}
		return none
	}
	if g.v2 != "" {
		dir := g.dirs[0]
		return errors.Join(
			write(dir, "memory.max", or(l.MemoryBytes, "max")), write(dir, "memory.swap.max", "0"), write(dir, "memory.oom.group", "1"),
			write(dir, "pids.max", or(l.PIDs, "max")),
			write(dir, "cpu.max", or(l.MilliCPU*period/1000, "max")+" "+strconv.Itoa(period)))
	}
	var errs []error
	if mount := g.v1["memory"]; mount != "" {
		dir := filepath.Join(mount, g.path)
		// The limit with swap may never be the lower one.
		_ = write(dir, "memory.memsw.limit_in_bytes", "-1")
		errs = append(errs, write(dir, "memory.limit_in_bytes", or(l.MemoryBytes, "-1")),
			write(dir, "memory.memsw.limit_in_bytes", or(l.MemoryBytes, "-1")))
	}
	if mount := g.v1["pids"]; mount != "" {
		errs = append(errs, write(filepath.Join(mount, g.path), "pids.max", or(l.PIDs, "max")))
	}
	if mount := g.v1["cpu"]; mount != "" {
		dir := filepath.Join(mount, g.path)
		errs = append(errs, write(dir, "cpu.cfs_period_us", strconv.Itoa(period)), write(dir, "cpu.cfs_quota_us", or(l.MilliCPU*period/1000, "-1")))
	}
	return errors.Join(errs...)
}

// Add moves a process into the group; what it starts is born there.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("add process %d to cgroup %s: %w", pid, g.path, err)
		}
	}
	return nil
}

// Processes are those in the group.
func (g *Group) Processes() []int {
	var pids []int
	seen := map[int]bool{}
	for _, dir := range g.dirs {
		for _, pid := range processes(dir) {
			if !seen[pid] {
				seen[pid] = true
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// processes are those in a cgroup directory, without those below it. One of another pid namespace has no pid here.
func processes(dir string) []int {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for line := range strings.Lines(string(data)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill ends every process of the group and returns when none is left. They
// cannot outrun it by forking.
func (g *Group) Kill() error {
	if len(g.Processes()) == 0 {
		return nil
	}
	if g.v2 == "" || os.WriteFile(filepath.Join(g.dirs[0], "cgroup.kill"), []byte("1"), 0o644) != nil {
		for _, dir := range g.dirs {
			_ = write(dir, "pids.max", "0")
		}
	}
	deadline := time.Now().Add(endPatience)
	for pids := g.Processes(); len(pids) > 0; pids = g.Processes() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of cgroup %s do not end", pids, g.path)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// MemoryBytes is what the group's processes use now, with their page cache; 0
// where that is not counted.
func (g *Group) MemoryBytes() int64 {
	file := filepath.Join(g.v1["memory"], g.path, "memory.usage_in_bytes")
	if g.v2 != "" {
		file = filepath.Join(g.dirs[0], "memory.current")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n
}

// OutOfMemory reports how many of the group's processes were killed because
// they passed its memory limit.
func (g *Group) OutOfMemory() int64 {
	file := filepath.Join(g.v1["memory"], g.path, "memory.oom_control")
	if g.v2 != "" {
		file = filepath.Join(g.dirs[0], "memory.events")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if word, number, ok := strings.Cut(strings.TrimSpace(line), " "); ok && word == "oom_kill" {
			n, _ := strconv.ParseInt(number, 10, 64)
			return n
		}
	}
	return 0
}

// Remove removes the group, and those above it that are empty then. Its
// processes must have ended.
func (g *Group) Remove() error {
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, removeTree(dir))
		for parent := filepath.Dir(g.path); parent != "/"; parent = filepath.Dir(parent) {
			dir = filepath.Dir(dir)
			_ = os.Remove(dir) // one that is not empty stays
		}
	}
	return errors.Join(errs...)
}

// Sweep removes the groups that are directly below path, with their processes: a
// kernel that was killed could not.
func Sweep(path string) error {
	h, err := open()
	if err != nil {
		return err
	}
	mounts := []string{h.v2}
	if h.v2 == "" {
		mounts = []string{h.v1["cpu"], h.v1["memory"], h.v1["pids"]}
	}
	found := map[string]bool{}
	for _, mount := range mounts {
		entries, err := os.ReadDir(filepath.Join(mount, path))
		for _, e := range entries {
			if err == nil && e.IsDir() && mount != "" {
				found[e.Name()] = true
			}
		}
	}
	var errs []error
	for name := range found {
		g, err := h.group(filepath.Join(path, name), Limits{})
		if err == nil {
			err = g.Remove()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
