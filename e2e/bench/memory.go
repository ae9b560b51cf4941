package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

const (
	goalMemory = 200 // MB
	// idleFor is how long a cluster is left alone before it is weighed: start
	// work is over and the collector has run by itself (two minutes at most).
	idleFor = 30 * time.Second
)

// process is what one process holds, in bytes.
type process struct {
	pid                 int
	name                string
	rss, pss, anonymous float64
}

// memory weighs the kernel and every plugin process of the standalone
// configuration with its node, when nothing is asked of it.
func memory(ctx context.Context, opt options) (_ []figure, err error) {
	o := cluster.Options{Name: "bench-memory", Config: "configs/standalone.yaml"}
	note := "with the node agent"
	if n, err := cluster.NewNetwork(); err == nil {
		o.Network = n
		defer n.Close()
	} else {
		o.Set, note = []string{"node.enabled=false"}, "without a node: "+err.Error()
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	select {
	case <-time.After(idleFor):
	case <-c.Exited():
		return nil, fmt.Errorf("the cluster ended by itself: %w", c.Err())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	list, err := weigh(c.Pid())
	if err != nil {
		return nil, err
	}
	if _, cfg, err := c.Client(); err == nil && opt.profile != "" {
		fetchProfile(cfg, "/debug/pprof/heap", filepath.Join(opt.profile, "memory.heap"), 0)
	}
	var rss, pss, anonymous float64
	var figures []figure
	for _, p := range list {
		rss, pss, anonymous = rss+p.rss, pss+p.pss, anonymous+p.anonymous
		figures = append(figures, most("  "+p.name, "MB", 0, mb(p.rss)).note("anonymous %.0f", mb(p.anonymous)))
	}
	return append([]figure{
		most("resident memory of kernel and plugins", "MB", goalMemory, mb(rss)).note("%d processes, %s, %s idle", len(list), note, idleFor),
		most("proportional (shared pages counted once)", "MB", 0, mb(pss)),
		most("anonymous (without mapped files)", "MB", 0, mb(anonymous)),
	}, figures...), nil
}

func mb(bytes float64) float64 { return bytes / 1e6 }

// weigh returns the kernel and its descendants, without the container tools.
func weigh(kernel int) ([]process, error) {
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
	var list []process
	for pid := range parents {
		if !descends(parents, pid, kernel) {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
		if err != nil || containerTool(exe) {
			continue
		}
		p, err := measure(pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		p.name = filepath.Base(exe)
		list = append(list, p)
	}
	if !slices.ContainsFunc(list, func(p process) bool { return p.pid == kernel }) {
		return nil, fmt.Errorf("process %d is not there", kernel)
	}
	slices.SortFunc(list, func(a, b process) int { return int(b.rss - a.rss) })
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

func measure(pid int) (process, error) {
	p := process{pid: pid}
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
			p.rss = kib * 1024
		case "Pss:":
			p.pss = kib * 1024
		case "Anonymous:":
			p.anonymous = kib * 1024
		}
	}
	if p.rss == 0 {
		return p, errors.New("no memory")
	}
	return p, lines.Err()
}
