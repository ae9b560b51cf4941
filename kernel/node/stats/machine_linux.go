package stats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// clockTicks is the unit of times in /proc/stat, the same on every Linux that Go knows.
const clockTicks = 100

// Meter measures one machine.
type Meter struct {
	proc string
	now  func() time.Time

	mu   sync.Mutex
	cpu  uint64 // ns of all CPUs, at the former measurement
	at   time.Time
	rate *uint64
}

// New makes a meter; proc is where the process file system is, normally /proc.
func New(proc string) *Meter { return &Meter{proc: proc, now: time.Now} }

// Node measures the machine into what the node's statistics say: start time, CPU, memory, network and processes.
func (m *Meter) Node(into *stats.NodeStats) error {
	now := m.now()
	cpu, boot, err1 := m.processors()
	if err1 == nil {
		into.StartTime = metav1.NewTime(boot)
		into.CPU = &stats.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &cpu, UsageNanoCores: m.perSecond(cpu, now)}
	}
	memory, swap, err2 := m.memory(now)
	if err2 == nil {
		into.Memory, into.Swap = memory, swap
	}
	network, err3 := m.network(now)
	if err3 == nil {
		into.Network = network
	}
	limit, err4 := m.processes(now)
	if err4 == nil {
		into.Rlimit = limit
	}
	return errors.Join(err1, err2, err3, err4)
}

// perSecond is the use of CPUs since the former measurement; nil at the first.
func (m *Meter) perSecond(cpu uint64, now time.Time) *uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	passed := now.Sub(m.at)
	if !m.at.IsZero() && passed < time.Second {
		return m.rate // too short to tell
	}
	if !m.at.IsZero() && cpu >= m.cpu {
		rate := uint64(float64(cpu-m.cpu) / passed.Seconds())
		m.rate = &rate
	}
	m.cpu, m.at = cpu, now
	return m.rate
}

func (m *Meter) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(m.proc, name))
	if err != nil {
		return "", fmt.Errorf("measure the machine: %w", err)
	}
	return string(text), nil
}

// processors is the time that all CPUs worked, and when the machine started.
func (m *Meter) processors() (used uint64, boot time.Time, err error) {
	text, err := m.read("stat")
	if err != nil {
		return 0, time.Time{}, err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 8 && fields[0] == "cpu":
			// user, nice, system, idle, iowait, irq, softirq, and stolen time is others'
			for i, field := range fields[1:8] {
				if n, err := strconv.ParseUint(field, 10, 64); err == nil && i != 3 && i != 4 {
					used += n * uint64(time.Second/clockTicks)
				}
			}
		case len(fields) == 2 && fields[0] == "btime":
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				boot = time.Unix(n, 0)
			}
		}
	}
	return used, boot, nil
}

// values reads lines of a name, a number and perhaps a unit.
func values(text string) map[string]uint64 {
	out := map[string]uint64{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			if len(fields) == 3 && fields[2] == "kB" {
				n <<= 10
			}
			out[strings.TrimSuffix(fields[0], ":")] = n
		}
	}
	return out
}

func (m *Meter) memory(now time.Time) (*stats.MemoryStats, *stats.SwapStats, error) {
	text, err := m.read("meminfo")
	if err != nil {
		return nil, nil, err
	}
	v := values(text)
	if v["MemTotal"] == 0 {
		return nil, nil, fmt.Errorf("measure the machine: %s names no MemTotal", filepath.Join(m.proc, "meminfo"))
	}
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	usage := less(v["MemTotal"], v["MemFree"])
	working := less(usage, v["Inactive(file)"])
	available, rss := less(v["MemTotal"], working), v["AnonPages"]
	out := &stats.MemoryStats{Time: metav1.NewTime(now), UsageBytes: &usage, WorkingSetBytes: &working, AvailableBytes: &available, RSSBytes: &rss}
	if text, err := m.read("vmstat"); err == nil {
		faults := values(text)
		all, major := faults["pgfault"], faults["pgmajfault"]
		out.PageFaults, out.MajorPageFaults = &all, &major
	}
	swapped, free := less(v["SwapTotal"], v["SwapFree"]), v["SwapFree"]
	return out, &stats.SwapStats{Time: metav1.NewTime(now), SwapUsageBytes: &swapped, SwapAvailableBytes: &free}, nil
}

// network counts what went over each interface but loopback; the first one with the default route stands for the node.
func (m *Meter) network(now time.Time) (*stats.NetworkStats, error) {
	text, err := m.read("self/net/dev")
	if err != nil {
		return nil, err
	}
	out := &stats.NetworkStats{Time: metav1.NewTime(now)}
	for line := range strings.Lines(text) {
		name, counts, ok := strings.Cut(line, ":")
		fields := strings.Fields(counts)
		if name = strings.TrimSpace(name); !ok || name == "lo" || len(fields) < 11 {
			continue
		}
		number := func(i int) *uint64 {
			n, err := strconv.ParseUint(fields[i], 10, 64)
			if err != nil {
				return nil
			}
			return &n
		}
		out.Interfaces = append(out.Interfaces, stats.InterfaceStats{Name: name, RxBytes: number(0), RxErrors: number(2), TxBytes: number(8), TxErrors: number(10)})
	}
	own := m.defaultInterface()
	for _, i := range out.Interfaces {
		if i.Name == own {
			out.InterfaceStats = i
		}
	}
	return out, nil
}

// defaultInterface is that of the default route, or "".
func (m *Meter) defaultInterface() string {
	text, err := m.read("self/net/route")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 7 && fields[1] == "00000000" && fields[7] == "00000000" {
			return fields[0]
		}
	}
	return ""
}

// processes are how many processes and threads there are, and may be.
func (m *Meter) processes(now time.Time) (*stats.RlimitStats, error) {
	load, err := m.read("loadavg")
	if err != nil {
		return nil, err
	}
	out := &stats.RlimitStats{Time: metav1.NewTime(now)}
	if fields := strings.Fields(load); len(fields) >= 4 {
		_, all, _ := strings.Cut(fields[3], "/")
		if n, err := strconv.ParseInt(all, 10, 64); err == nil {
			out.NumOfRunningProcesses = &n
		}
	}
	for _, file := range []string{"sys/kernel/pid_max", "sys/kernel/threads-max"} {
		text, err := m.read(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil && (out.MaxPID == nil || n < *out.MaxPID) {
			out.MaxPID = &n
		}
	}
	return out, nil
}
