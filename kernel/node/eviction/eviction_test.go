package eviction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

func thresholds(t *testing.T, texts map[string]string) []Threshold {
	t.Helper()
	out, err := ParseThresholds(texts)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseThresholds(t *testing.T) {
	got := thresholds(t, map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "0%", "pid.available": "0"})
	if len(got) != 2 || got[0].Of(1<<40) != 100<<20 || got[1].Of(1000) != 100 {
		t.Errorf("%+v", got)
	}
	for name, text := range map[string]string{"memory.free": "1", "nodefs.available": "x%", "nodefs.inodesFree": "-1", "pid.available": "", "imagefs.available": "101%", "memory.available": "NaN%"} {
		if got, err := ParseThresholds(map[string]string{name: text}); err == nil {
			t.Errorf("%s: %q: %+v", name, text, got)
		}
	}
}

// machine is a folder that stands for /proc.
func machine(t *testing.T, memAvailable, processes int64) string {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, memAvailable, processes)
	return dir
}

func put(t *testing.T, dir string, memAvailable, processes int64) {
	t.Helper()
	for name, text := range map[string]string{
		"meminfo": fmt.Sprintf("MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: %d kB\n", memAvailable>>10),
		"loadavg": fmt.Sprintf("0.1 0.2 0.3 2/%d 4711\n", processes), "sys/kernel/pid_max": "32768\n", "sys/kernel/threads-max": "1000\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMachine(t *testing.T) {
	o := Observations{}
	if err := o.Machine(machine(t, 1<<30, 900)); err != nil {
		t.Fatal(err)
	}
	if o[MemoryAvailable] != (Observation{1 << 30, 4 << 30}) || o[PIDAvailable] != (Observation{100, 1000}) {
		t.Errorf("%+v", o)
	}
	if err := o.Machine(t.TempDir()); err == nil {
		t.Error("nothing was measured, and nobody says so")
	}
	if err := o.FileSystem("/", NodeFsAvailable, NodeFsInodes); err != nil || o[NodeFsAvailable].Capacity <= 0 {
		t.Errorf("%+v %v", o, err)
	}
	if err := o.FileSystem(filepath.Join(t.TempDir(), "none"), NodeFsAvailable, NodeFsInodes); err == nil {
		t.Error("a file system that is not there was measured")
	}
}

// bench is a manager over a folder that stands for /proc; its disk is short of room while full is set.
type bench struct {
	*Manager
	proc    string
	clock   time.Time
	full    bool
	writers []Writer
	evicted []types.UID
	said    []string
	reclaim int
	changes int
}

func newBench(t *testing.T, texts map[string]string) *bench {
	b := &bench{proc: machine(t, 2<<30, 100), clock: time.Unix(1000, 0)}
	none := filepath.Join(t.TempDir(), "none")
	b.Manager = New(Config{Thresholds: thresholds(t, texts), Transition: 5 * time.Minute, NodeFs: t.TempDir(), ProcFs: b.proc}, Deps{
		ImageFs: func(context.Context) (string, error) { return none, errors.New("not asked") },
		Reclaim: func(context.Context) error { b.reclaim++; return nil },
		Writers: func(context.Context) ([]Writer, error) { return b.writers, nil },
		Evict:   func(uid types.UID, text string) { b.evicted, b.said = append(b.evicted, uid), append(b.said, text) },
		Event:   func(_, reason, text string) { b.said = append(b.said, reason+": "+text) },
		Changed: func() { b.changes++ }, Logger: slog.New(slog.DiscardHandler),
	})
	b.now = func() time.Time { return b.clock }
	return b
}

func (b *bench) round(t *testing.T, after time.Duration) {
	t.Helper()
	b.clock = b.clock.Add(after)
	if b.full {
		b.SetThresholds(thresholds(t, map[string]string{"nodefs.available": "100%"}), 5*time.Minute) // nothing has all of it left
	} else {
		b.SetThresholds(thresholds(t, map[string]string{"nodefs.available": "1"}), 5*time.Minute)
	}
	if again := b.Round(t.Context()); again < minPeriod || again > Period {
		t.Errorf("the next round is due in %v", again)
	}
}

// TestPressures: pressures are measured, and told for a while after they are over.
func TestPressures(t *testing.T) {
	b := newBench(t, map[string]string{"memory.available": "100Mi", "pid.available": "500"})
	b.Round(t.Context())
	if b.Pressures() != (Pressures{}) || b.changes != 0 {
		t.Errorf("%+v without pressure", b.Pressures())
	}
	put(t, b.proc, 99<<20, 501)
	b.Round(t.Context())
	if b.Pressures() != (Pressures{Memory: true, PID: true}) || b.changes != 1 {
		t.Errorf("%+v under pressure", b.Pressures())
	}
	put(t, b.proc, 1<<30, 10)
	b.clock = b.clock.Add(5*time.Minute - time.Second)
	b.Round(t.Context())
	if b.Pressures() != (Pressures{Memory: true, PID: true}) {
		t.Errorf("%+v just after it", b.Pressures())
	}
	b.clock = b.clock.Add(time.Second)
	b.Round(t.Context())
	if b.Pressures() != (Pressures{}) || b.changes != 2 {
		t.Errorf("%+v long after it", b.Pressures())
	}
	b.deps.PodMemory = func() (int64, int64, bool) { return 950 << 20, 1000 << 20, true }
	b.Round(t.Context())
	if b.Pressures() != (Pressures{Memory: true}) {
		t.Errorf("%+v while pods have used up their memory", b.Pressures())
	}
	if len(b.evicted) != 0 || b.reclaim != 0 {
		t.Error("something was evicted for memory")
	}
}

// TestDiskPressure: H4: first goes what nobody uses, then the largest writer, one at a time, and never a critical pod.
func TestDiskPressure(t *testing.T) {
	b := newBench(t, nil)
	b.writers = []Writer{
		{UID: "critical", Used: 1 << 40, Critical: true},
		{UID: "promised", Used: 6 << 30, Requested: 5 << 30},
		{UID: "filler", Used: 3 << 30, Containers: []Container{{Name: "c", Used: 3 << 30}, {Name: "side", Used: 1, Requested: 1 << 20}}},
		{UID: "small", Used: 4096},
		{UID: "nothing"},
	}
	b.round(t, 0)
	if b.reclaim != 0 || len(b.evicted) != 0 || b.Pressures().Disk {
		t.Fatalf("without pressure: %+v", b)
	}
	b.full = true
	b.round(t, time.Second)
	if b.reclaim != 1 || !slices.Equal(b.evicted, []types.UID{"filler"}) || !b.Pressures().Disk {
		t.Fatalf("reclaimed %d times, evicted %v, %+v", b.reclaim, b.evicted, b.Pressures())
	}
	if last := b.said[len(b.said)-1]; !strings.HasPrefix(last, "The node was low on resource: ephemeral-storage. Threshold quantity: ") ||
		!strings.HasSuffix(last, "Container c was using 3145728Ki, request is 0, has larger consumption of ephemeral-storage. ") {
		t.Errorf("%s", last)
	}
	if !slices.Contains(b.said, "EvictionThresholdMet: Attempting to reclaim ephemeral-storage") {
		t.Errorf("no event: %q", b.said)
	}
	b.round(t, time.Second) // it is on its way
	if len(b.evicted) != 1 || b.reclaim != 1 {
		t.Errorf("evicted %v, reclaimed %d times", b.evicted, b.reclaim)
	}
	b.writers = slices.DeleteFunc(b.writers, func(w Writer) bool { return w.UID == "filler" })
	b.deps.Reclaim = func(context.Context) error { // what it wrote is given back, and that is enough
		b.reclaim++
		b.SetThresholds(nil, 0)
		return nil
	}
	b.round(t, time.Second)
	if len(b.evicted) != 1 || b.reclaim != 2 {
		t.Fatalf("evicted %v before the room of the first was given back, reclaimed %d times", b.evicted, b.reclaim)
	}
	b.deps.Reclaim = func(context.Context) error { b.reclaim++; return nil }
	b.round(t, time.Second) // a runtime gives it back a little later
	if len(b.evicted) != 1 {
		t.Fatalf("evicted %v before the room of the first was given back", b.evicted)
	}
	b.round(t, patience)
	if !slices.Equal(b.evicted, []types.UID{"filler", "promised"}) {
		t.Errorf("evicted %v", b.evicted)
	}
	// One that does not leave does not keep the others.
	b.writers = append(b.writers, Writer{UID: "late", Used: 7 << 30})
	b.round(t, patience)
	if n := len(b.evicted); n != 3 || b.evicted[2] != "late" {
		t.Errorf("evicted %v", b.evicted)
	}
	b.writers = b.writers[:1]
	b.round(t, patience)
	if len(b.evicted) != 3 {
		t.Errorf("a critical pod was evicted: %v", b.evicted)
	}
	b.full = false
	b.round(t, 6*time.Minute)
	b.round(t, 6*time.Minute)
	if b.Pressures().Disk {
		t.Error("the pressure does not end")
	}
}

func TestReservation(t *testing.T) {
	b := newBench(t, map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "15%"})
	r := b.Reservation(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourceCPU: resource.MustParse("2")})
	memory, disk := r[corev1.ResourceMemory], r[corev1.ResourceEphemeralStorage]
	if len(r) != 2 || memory.String() != "100Mi" || disk.String() != "10Gi" {
		t.Errorf("%v", r)
	}
}

// TestNext: the disk is measured sooner while it fills up.
func TestNext(t *testing.T) {
	b := newBench(t, map[string]string{"nodefs.available": "100Mi"})
	for i, c := range []struct {
		room int64
		want time.Duration
	}{
		{10 << 30, Period},
		{10 << 30, Period},
		{5 << 30, 500 * time.Millisecond},       // 5 GiB in a second, 5 GiB left
		{1 << 20, minPeriod},                    // nearly there
		{0, Period},                             // there: eviction has its own period
		{4 << 30, Period},                       // given back
		{4<<30 - 1<<20, Period},                 // slowly
		{4<<30 - 2<<30, 500 * time.Millisecond}, // 2 GiB in a second, 2 GiB left
	} {
		b.clock = b.clock.Add(time.Second)
		got := b.next(Observations{NodeFsAvailable: {c.room + 100<<20, 20 << 30}})
		if d := got - c.want; d < -time.Millisecond || d > time.Millisecond {
			t.Errorf("%d: with room for %d the next round is in %v, want %v", i, c.room, got, c.want)
		}
	}
}
