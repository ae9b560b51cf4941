package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unifiedMount is where the unified hierarchy is on a machine of cgroup v2.
const unifiedMount = "/sys/fs/cgroup"

// hierarchies are the cgroup file systems of a machine.
type hierarchies struct {
	v2   string            // mount point of the unified hierarchy on a machine of cgroup v2, else ""
	swap bool              // v2 accounts for swap
	v1   map[string]string // controller → mount point
	all  []string          // every hierarchy: the runtime makes cgroups in those without controllers too
}

var controllers = []string{
	"cpu", "memory", "pids", "cpuset", "cpuacct", "blkio", "devices", "freezer", "hugetlb", "net_cls", "net_prio", "perf_event", "rdma", "misc",
}

// open finds those of this machine.
func open() (*hierarchies, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("find cgroup hierarchies: %w", err)
	}
	defer mounts.Close()
	own, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find cgroup hierarchies: %w", err)
	}
	defer own.Close()
	return find(mounts, own, unifiedMount)
}

// find reads a list of mounts (/proc/self/mounts) and this process's cgroups (/proc/self/cgroup). unified is where
// cgroup v2 is mounted on a machine that has it alone.
func find(mounts, own io.Reader, unified string) (*hierarchies, error) {
	h := &hierarchies{v1: map[string]string{}}
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[2] != "cgroup" && fields[2] != "cgroup2" {
			continue
		}
		point := fields[1]
		h.all = append(h.all, point)
		switch {
		case fields[2] == "cgroup":
			for option := range strings.SplitSeq(fields[3], ",") {
				// The first mount counts; others show the same cgroups elsewhere.
				if _, known := h.v1[option]; !known && slices.Contains(controllers, option) {
					h.v1[option] = point
				}
			}
		case point == unified:
			has, err := os.ReadFile(filepath.Join(point, "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(has)), "memory") {
				h.v2 = point
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("find cgroup hierarchies: %w", err)
	}
	if h.v2 == "" && h.v1["cpu"] == "" {
		return nil, errors.New("find cgroup hierarchies: neither cgroup v2 nor a v1 cpu controller is mounted")
	}
	if h.v2 != "" {
		h.swap = accountsSwap(own, h.v2)
	}
	return h, nil
}

// accountsSwap reports whether cgroups of v2 have a limit of swap. The root has none of its own, so this process's
// cgroup is looked at.
func accountsSwap(own io.Reader, v2 string) bool {
	for lines := bufio.NewScanner(own); lines.Scan(); {
		if path, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			_, err := os.Stat(filepath.Join(v2, path, "memory.swap.max"))
			return err == nil
		}
	}
	return false
}

// delegate makes the path on v2, turning controllers on at each step.
func (h *hierarchies) delegate(p string) error {
	dir := h.v2
	for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		// Best effort a controller: one that the host does not hand down is done without.
		for _, c := range []string{"+cpu", "+memory", "+pids", "+cpuset", "+io", "+hugetlb"} {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte(c), 0o644)
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make cgroup %s: %w", p, err)
		}
	}
	return nil
}
