package storage

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// BenchmarkStart opens a store that holds 100,000 pods, up to the first list of one page, and reports what they take in
// memory: of the heap, and of the process (which counts the pages of tables that were read).
//
//	go test ./kernel/api/storage -run '^$' -bench Start -benchtime 3x
func BenchmarkStart(b *testing.B) {
	const pods = 100_000
	dir := b.TempDir()
	open := func(fill bool) (heapBytes, resident uint64) {
		heapBefore, residentBefore := heap(), residentBytes(b)
		b.StartTimer()
		st, err := store.Open(store.Config{Dir: dir, MinFreeBytes: -1})
		if err != nil {
			b.Fatal(err)
		}
		fan, err := bus.New(bus.Config{}, st)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- st.Run(ctx) }()
		backend, err := NewBackend(st, fan, Options{})
		if err != nil {
			b.Fatal(err)
		}
		s, _ := podStorage(b, &fixture{store: st, backend: backend})
		if fill {
			createPods(b, s, pods)
		} else if stats, err := s.Stats(ctx); err != nil || stats.ObjectCount != pods {
			b.Fatal(stats, err)
		}
		b.StopTimer()
		if heapAfter := heap(); heapAfter > heapBefore {
			heapBytes = heapAfter - heapBefore
		}
		if now := residentBytes(b); now > residentBefore {
			resident = now - residentBefore
		}
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
		if err := st.Close(); err != nil {
			b.Error(err)
		}
		return heapBytes, resident
	}
	b.StopTimer()
	start := time.Now()
	open(true)
	b.Logf("made %d pods in %s", pods, time.Since(start))
	b.ResetTimer()
	var heapBytes, resident uint64
	for range b.N {
		h, r := open(false)
		heapBytes, resident = max(heapBytes, h), max(resident, r)
	}
	b.ReportMetric(float64(heapBytes)/pods, "heap-B/pod")
	b.ReportMetric(float64(resident)/pods, "resident-B/pod")
}

func residentBytes(b *testing.B) uint64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib << 10
		}
	}
	b.Skip("the kernel does not tell the size of the process")
	return 0
}
