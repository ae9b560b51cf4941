package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sample is what a soak takes at a time.
type sample struct {
	Seconds float64 `json:"seconds"`
	// DiskBytes is what the file system gave the store's files; ValueLogBytes is the value log's part.
	DiskBytes     int64 `json:"diskBytes"`
	ValueLogBytes int64 `json:"valueLogBytes"`
	// AnonymousBytes is the process's memory without mapped files.
	AnonymousBytes int64  `json:"anonymousBytes"`
	Revision       uint64 `json:"revision"`
	Compacted      uint64 `json:"compactedRevision"`
}

func anonymousMemory(t testing.TB) (bytes int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no RssAnon in /proc/self/status")
	return 0
}

// TestSoak rewrites the same keys, small and large, all the time: disk and memory must come to a level and stay. SOAK
// says how long (`make test-soak`: 10m), SOAK_OUT where soak.json and soak.svg go.
func TestSoak(t *testing.T) {
	word := os.Getenv("SOAK")
	if word == "" {
		t.Skip("SOAK says how long; TestGarbageIsBounded is the short form")
	}
	length, err := time.ParseDuration(word)
	if err != nil {
		t.Fatal(err)
	}
	// As a kernel has it, but with a history and collections as much shorter as this is shorter than a day.
	cfg := Config{Dir: filepath.Join(t.TempDir(), "data"), Retention: length / 20, GCInterval: length / 40}
	interval := length / 300
	s, _ := running(t, cfg)
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var large atomic.Int64
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			small, big := bytes.Repeat([]byte("s"), 4<<10), bytes.Repeat([]byte("b"), 800<<10)
			for ctx.Err() == nil {
				write := Write{Key: fmt.Sprintf("/small/%04d", rng.IntN(2000)), Value: small[:rng.IntN(len(small))], Expect: AnyRevision}
				switch n := rng.IntN(1000); {
				case n < 50:
					write.Delete = true
				case n < 55:
					write.Key, write.Value = fmt.Sprintf("/large/%02d", rng.IntN(10)), big
					large.Add(int64(len(big)))
				}
				if _, err := s.Commit(ctx, write); err != nil && ctx.Err() == nil && !errors.As(err, new(*ConflictError)) {
					t.Error(err)
					return
				}
			}
		})
	}
	var samples []sample
	begin := time.Now()
	for tick := time.NewTicker(interval); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		use, err := diskUse(cfg.Dir)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, sample{time.Since(begin).Seconds(), use.Total(), use.ValueLog, anonymousMemory(t), s.CurrentRevision(), s.CompactedRevision()})
	}
	wg.Wait()
	if out := os.Getenv("SOAK_OUT"); out != "" {
		if err := writeSoak(out, samples); err != nil {
			t.Error(err)
		}
	}
	most := func(samples []sample, of func(sample) int64) (most int64) {
		for _, s := range samples {
			most = max(most, of(s))
		}
		return most
	}
	n := len(samples)
	last := samples[n-1]
	t.Logf("%d revisions, %d MiB of large values written; at the end %d MiB on disk, %d MiB of memory",
		last.Revision, large.Load()>>20, last.DiskBytes>>20, last.AnonymousBytes>>20)
	for _, tt := range []struct {
		name string
		of   func(sample) int64
	}{
		{"disk", func(s sample) int64 { return s.DiskBytes }},
		{"value log", func(s sample) int64 { return s.ValueLogBytes }},
		{"memory", func(s sample) int64 { return s.AnonymousBytes }},
	} {
		early, late := most(samples[n/4:n*5/8], tt.of), most(samples[n*5/8:], tt.of)
		t.Logf("%s: at most %d MiB in the second and third eighth of the time, then %d MiB", tt.name, early>>20, late>>20)
		if late > early*3/2+32<<20 {
			t.Errorf("%s grows: from %d to %d MiB", tt.name, early>>20, late>>20)
		}
	}
}

// writeSoak writes the samples as JSON and as a chart.
func writeSoak(dir string, samples []sample) error {
	b, err := json.MarshalIndent(samples, "", " ")
	if err != nil {
		return err
	}
	var svg strings.Builder
	const width, height, left, bottom = 900, 420, 70, 40
	var top int64 = 1
	for _, s := range samples {
		top = max(top, s.DiskBytes, s.AnonymousBytes)
	}
	end := samples[len(samples)-1].Seconds
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" fill="white"/><text x="%d" y="20" font-size="15">kernel/store under steady rewriting: %d revisions in %.0f s</text>`+"\n",
		left, samples[len(samples)-1].Revision, end)
	for i := range 5 {
		y := height - bottom - i*(height-2*bottom)/4
		fmt.Fprintf(&svg, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#ddd"/><text x="%d" y="%d" text-anchor="end">%d MiB</text>`+"\n",
			left, width-20, y, y, left-6, y+4, int64(i)*top/4>>20)
		fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="middle">%.0f s</text>`+"\n", left+i*(width-20-left)/4, height-bottom+18, end*float64(i)/4)
	}
	for i, line := range []struct {
		name, color string
		of          func(sample) int64
	}{
		{"disk", "#1f6fb2", func(s sample) int64 { return s.DiskBytes }},
		{"value log", "#e07b00", func(s sample) int64 { return s.ValueLogBytes }},
		{"memory without mapped files", "#2a8f3c", func(s sample) int64 { return s.AnonymousBytes }},
	} {
		var points strings.Builder
		for _, s := range samples {
			fmt.Fprintf(&points, "%.1f,%.1f ", left+s.Seconds/end*(width-20-left),
				height-bottom-float64(line.of(s))/float64(top)*(height-2*bottom))
		}
		fmt.Fprintf(&svg, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/><text x="%d" y="38" fill="%s">%s</text>`+"\n",
			line.color, points.String(), left+i*160, line.color, line.name)
	}
	svg.WriteString("</svg>\n")
	return errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "soak.json"), append(b, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "soak.svg"), []byte(svg.String()), 0o644))
}
