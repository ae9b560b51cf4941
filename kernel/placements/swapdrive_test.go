package placements

import (
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// swapDrive is what the benchmark plugin asks for: pods that come one by one while
// a predicate is upgraded, and as many while it is not.
type swapDrive struct {
	Transport      string
	Upgrades, Pods int
	Out            string
}

// swapDriven is the outcome, in nanoseconds.
type swapDriven struct {
	Quiet, Upgrading swapFlow
	// Took is how long the upgrades lasted together.
	Took time.Duration
}

// swapFlow is what pods met with.
type swapFlow struct {
	// Slowest is the slowest attempt to place a pod, Most the largest of each of
	// its times over all attempts.
	Slowest, Most cycleTime
	// Way is the slowest way of a pod from its coming to its binding.
	Way time.Duration
}

// TestSwapDrive measures as $PINTLE_SWAP_DRIVE says; without that, a small round.
func TestSwapDrive(t *testing.T) {
	d := swapDrive{Transport: manifest.TransportWASM, Upgrades: 3, Pods: 300}
	text := os.Getenv("PINTLE_SWAP_DRIVE")
	if text != "" {
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
	}
	meter := &cycleMeter{}
	s := startSwapping(t, d.Transport, 100, 1000, meter)
	s.came = map[string]time.Time{}
	// Pods come evenly, as many an upgrade.
	var pace atomic.Int64
	pace.Store(int64(time.Millisecond))
	s.flow(t, 0, d.Pods/10, &pace, meter) // warm

	upgraded := make(chan error, 1)
	var out swapDriven
	go func() {
		each := d.Pods / d.Upgrades
		for i := range d.Upgrades {
			began := time.Now()
			if err := s.upgrade(i + 1); err != nil {
				upgraded <- err
				return
			}
			took := time.Since(began)
			out.Took += took
			pace.Store(int64(took) / int64(each))
		}
		upgraded <- nil
	}()
	out.Upgrading = s.flow(t, 1, d.Pods, &pace, meter)
	if err := <-upgraded; err != nil {
		t.Fatal(err)
	}
	out.Quiet = s.flow(t, 2, d.Pods, &pace, meter)
	for name, nodes := range s.bound {
		if len(nodes) != 1 {
			t.Errorf("pod %s is bound to %v", name, nodes)
		}
	}
	t.Logf("%+v", out)
	if text == "" {
		return
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Out, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// flow lets pods come at a pace and returns what they met with, when all are
// bound.
func (s *swapping) flow(t *testing.T, round, pods int, pace *atomic.Int64, meter *cycleMeter) swapFlow {
	t.Helper()
	s.mu.Lock()
	before := len(s.bound)
	s.slowest = 0
	s.mu.Unlock()
	meter.reset()
	from := round * 10_000_000
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	last, due := time.Now(), 0.0
	for next := 0; next < pods; {
		now := <-tick.C
		due += float64(now.Sub(last)) / float64(max(pace.Load(), 1))
		last = now
		more := min(int(due), pods-next)
		due -= float64(more)
		s.mu.Lock()
		for i := range more {
			s.came[fmt.Sprint("pod-", from+next+i)] = time.Now()
		}
		s.mu.Unlock()
		s.add(from+next, from+next+more)
		next += more
	}
	s.await(t, before+pods)
	out := swapFlow{}
	out.Slowest, out.Most = meter.reset()
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Way = s.slowest
	return out
}
