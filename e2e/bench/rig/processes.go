package rig

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Process is what one process holds, in bytes.
type Process struct {
	PID                 int
	Name                string
	RSS, PSS, Anonymous float64
}

// MB is bytes in millions.
func MB(bytes float64) float64 { return bytes / 1e6 }

// Weigh returns the kernel and its descendants, without the container tools.
func Weigh(kernel int) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			parents[pid] = parentOf(pid)
		}
	}
	var list []Process
	for pid := range parents {
		if !descends(parents, pid, kernel) {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err != nil || containerTool(exe) {
			continue
		}
		p, err := Measure(pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		p.Name = filepath.Base(exe)
		list = append(list, p)
	}
	if !slices.ContainsFunc(list, func(p Process) bool { return p.PID == kernel }) {
		return nil, fmt.Errorf("process %d is not there", kernel)
	}
	slices.SortFunc(list, func(a, b Process) int { return int(b.RSS - a.RSS) })
	return list, nil
}

// containerTool tells containerd, its shims and what they run from plugins.
func containerTool(exe string) bool {
	return strings.Contains(exe, "/bin/containerd/") || filepath.Base(exe) == "pause"
}

func descends(parents map[int]int, pid, ancestor int) bool {
	for range 64 {
		if pid == ancestor {
			return true
		}
		if pid = parents[pid]; pid <= 1 {
			return false
		}
	}
	return false
}

func parentOf(pid int) int {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	// The name may hold spaces and parentheses; it ends with the last one.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// Measure reads what one process holds.
func Measure(pid int) (Process, error) {
	p := Process{PID: pid}
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return p, err
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64)
		switch fields[0] {
		case "Rss:":
			p.RSS = kib * 1024
		case "Pss:":
			p.PSS = kib * 1024
		case "Anonymous:":
			p.Anonymous = kib * 1024
		}
	}
	if p.RSS == 0 {
		return p, errors.New("no memory")
	}
	return p, lines.Err()
}

// ProcessorTime is what a process has used so far.
func ProcessorTime(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0
	}
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100 on every Linux of Go
}
