package plugin

import (
	"errors"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Calls that were not timed count with the time of the next that is, and with the
// code that they ended with, before anybody reads.
func TestBriefCallsAreCounted(t *testing.T) {
	s := &stats{}
	if s.untimed() {
		t.Fatal("the first call is to be timed")
	}
	s.record(time.Microsecond, nil)
	s.timed(time.Microsecond)
	for range timedEvery {
		if !s.untimed() {
			break
		}
		s.brief(contractv1.Code_SUCCESS)
	}
	if n := s.briefly.asked.Load(); n != timedEvery-1 {
		t.Fatalf("%d calls were not timed, want %d", n, timedEvery-1)
	}
	s.record(3*time.Microsecond, nil)
	s.timed(3 * time.Microsecond)
	s.brief(contractv1.Code_UNSCHEDULABLE)
	s.brief(contractv1.Code_SUCCESS)
	s.settle()
	s.settle()
	count, sum, _ := s.histogram()
	if want := (1 + 3*timedEvery + 6) * time.Microsecond; count != timedEvery+3 || sum != want || s.calls.Load() != int64(count) {
		t.Errorf("%d calls (%d) took %s, want %d and %s", count, s.calls.Load(), sum, timedEvery+3, want)
	}
	got := map[string]uint64{}
	s.executions(func(code string, count uint64, _ time.Duration, _ map[float64]uint64) { got[code] = count })
	if got["Unschedulable"] != 1 || got["Success"] != timedEvery+2 {
		t.Errorf("by code %v", got)
	}
	s.circuit.note(time.Now(), 0, time.Second, errors.New("no"), func() {})
	for range breakSlow - 1 {
		s.circuit.note(time.Now(), time.Second, time.Second, nil, func() {})
		if s.untimed() {
			t.Fatal("a call that follows a slow one is to be timed")
		}
	}
	s.circuit.note(time.Now(), 0, time.Second, nil, func() {})
	if !s.untimed() {
		t.Error("a call that follows a fast one need not be timed")
	}
}

// A module that was asked about one node many times, so that nobody looks at the
// clock, is contained as any other when it panics, and when it never returns (PLG-9).
func TestBriefQuestionsAreContained(t *testing.T) {
	source := &testSource{delta: replica(5, 1)}
	h := runHost(t, testConfig(t, manifest.TransportWASM, "Moody"), source)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(t.Context(), source.delta); err != nil {
		t.Fatal(err)
	}
	asked := int64(0)
	filter := func(node uint32) uint32 {
		out := []uint32{9}
		if err := p.Filter(t.Context(), 0, 7, []uint32{node}, out); err != nil {
			t.Fatal(err)
		}
		asked++
		return out[0]
	}
	sound := func() {
		t.Helper()
		for range 5 {
			if v := filter(0); v != 0 {
				t.Fatalf("node 0: %q", p.Reasons(0, v))
			}
		}
		if reasons := p.Reasons(0, filter(1)); len(reasons) != 1 || reasons[0] != "moody about n1" {
			t.Fatalf("node 1: %q", reasons)
		}
		if n := p.filters[0].unit.stats["Moody"].briefly.asked.Load(); n == 0 {
			t.Fatal("every question was timed")
		}
	}
	sound()
	for node, name := range map[uint32]string{2: "panics"} {
		if filter(node) != unavailableVerdict {
			t.Fatalf("node %d, about which it %s, passes", node, name)
		}
	}
	sound()
	// It loops, and is ended by its deadline.
	hurry(t, p, time.Second)
	if filter(3) != unavailableVerdict {
		t.Fatal("node 3, about which it never returns, passes")
	}
	counted := p.filters[0].unit.stats["Moody"]
	counted.settle()
	if calls, failures := counted.calls.Load(), counted.failures.Load(); calls != asked || failures != 2 {
		t.Errorf("%d calls and %d failures, want %d and 2", calls, failures, asked)
	}
	if _, sum, _ := counted.histogram(); sum < 900*time.Millisecond {
		t.Errorf("all took %s, with one that had a second", sum)
	}
	waitSound(t, p, 0)
}
