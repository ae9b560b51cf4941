package stats

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

func TestNode(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("stat", "cpu  100 10 50 1000 500 5 5 9 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nbtime 1700000000\n")
	put("meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 500 kB\nInactive(file): 200 kB\nAnonPages: 400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n")
	put("vmstat", "pgfault 77\npgmajfault 7\n")
	put("self/net/dev", "Inter-| Receive | Transmit\n face |bytes packets errs\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  eth0: 1000 9 2 0 0 0 0 0 3000 8 4 0 0 0 0 0\ncni0:5 0 0 0 0 0 0 0 6 0 0 0 0 0 0 0\n")
	put("self/net/route", "Iface Destination Gateway Flags RefCnt Use Metric Mask\ncni0 0000F40A 0 1 0 0 0 00FFFFFF\neth0 00000000 0100A8C0 0003 0 0 0 00000000 0 0 0\n")
	put("loadavg", "0 0 0 3/412 99\n")
	put("sys/kernel/pid_max", "32768\n")
	put("sys/kernel/threads-max", "9000\n")
	m := New(dir)
	clock := time.Unix(1_700_001_000, 0)
	m.now = func() time.Time { return clock }
	var n stats.NodeStats
	if err := m.Node(&n); err != nil {
		t.Fatal(err)
	}
	if *n.CPU.UsageCoreNanoSeconds != 170*uint64(10*time.Millisecond) || n.CPU.UsageNanoCores != nil || n.StartTime.Unix() != 1_700_000_000 {
		t.Errorf("CPU %+v, since %v", n.CPU, n.StartTime)
	}
	if *n.Memory.UsageBytes != 700<<10 || *n.Memory.WorkingSetBytes != 500<<10 || *n.Memory.AvailableBytes != 500<<10 || *n.Memory.RSSBytes != 400<<10 ||
		*n.Memory.PageFaults != 77 || *n.Memory.MajorPageFaults != 7 || *n.Swap.SwapUsageBytes != 30<<10 {
		t.Errorf("memory %+v, swap %+v", n.Memory, n.Swap)
	}
	if w := n.Network; w.Name != "eth0" || *w.RxBytes != 1000 || *w.TxBytes != 3000 || *w.RxErrors != 2 || *w.TxErrors != 4 || len(w.Interfaces) != 2 {
		t.Errorf("network %+v", w)
	}
	if *n.Rlimit.NumOfRunningProcesses != 412 || *n.Rlimit.MaxPID != 9000 {
		t.Errorf("processes %+v", n.Rlimit)
	}
	put("stat", "cpu  300 10 50 1000 500 5 5 9 0 0\nbtime 1700000000\n")
	clock = clock.Add(4 * time.Second)
	if err := m.Node(&n); err != nil || n.CPU.UsageNanoCores == nil || *n.CPU.UsageNanoCores != 500_000_000 {
		t.Errorf("2 s of CPU in 4 s are %v (%v)", n.CPU.UsageNanoCores, err)
	}
	if err := New(t.TempDir()).Node(&n); err == nil {
		t.Error("nothing could be measured, and nobody says so")
	}
}

// TestThisMachine: the real files have the form that is read.
func TestThisMachine(t *testing.T) {
	var n stats.NodeStats
	if err := New("/proc").Node(&n); err != nil {
		t.Fatal(err)
	}
	if *n.CPU.UsageCoreNanoSeconds == 0 || *n.Memory.WorkingSetBytes == 0 || *n.Rlimit.MaxPID == 0 || n.StartTime.IsZero() {
		t.Errorf("%+v", n)
	}
}
