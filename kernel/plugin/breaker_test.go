package plugin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// TestBreaker: what opens a circuit, what tries it, what closes it.
func TestBreaker(t *testing.T) {
	const deadline = 100 * time.Millisecond
	bad := errors.New("out of order")
	now := time.Now()
	b := &breaker{}
	defer b.close()
	ask := func(took time.Duration, err error) {
		t.Helper()
		if err := b.admit(now); err != nil {
			t.Fatal(err)
		}
		b.note(now, took, deadline, err, func() {})
	}
	want := func(state v1alpha1.PluginCircuit, words ...string) {
		t.Helper()
		got, why := b.report(now)
		if got != state {
			t.Fatalf("circuit is %s (%s), want %s", got, why, state)
		}
		for _, w := range words {
			if !strings.Contains(why, w) {
				t.Errorf("it says %q, want %q in it", why, w)
			}
		}
		if err := b.admit(now); (err != nil) != (state == v1alpha1.PluginCircuitOpen) {
			t.Errorf("admitted with %v while %s", err, state)
		}
	}
	// Failures that are far apart are no reason.
	for range 2 * breakFailures {
		ask(time.Millisecond, bad)
		now = now.Add(breakWindow / (breakFailures - 2))
	}
	want(v1alpha1.PluginCircuitClosed)
	now = now.Add(time.Hour)
	for range breakFailures {
		ask(time.Millisecond, bad)
	}
	want(v1alpha1.PluginCircuitOpen, "failed 5 times within 30s", "out of order", "is not asked until")
	now = now.Add(firstPause - 1)
	want(v1alpha1.PluginCircuitOpen)
	now = now.Add(1)
	ask(time.Millisecond, bad) // the question that tries it
	want(v1alpha1.PluginCircuitOpen)
	now = now.Add(firstPause)
	want(v1alpha1.PluginCircuitOpen) // the second pause is twice as long
	now = now.Add(firstPause)
	want(v1alpha1.PluginCircuitHalfOpen)
	ask(time.Millisecond, nil)
	want(v1alpha1.PluginCircuitClosed)

	// Just under the deadline, again and again; one quick answer is enough to go on.
	now = now.Add(time.Hour)
	for range breakSlow - 1 {
		ask(95*time.Millisecond, nil)
	}
	ask(time.Millisecond, nil)
	for range breakSlow - 1 {
		ask(95*time.Millisecond, nil)
	}
	want(v1alpha1.PluginCircuitClosed)
	ask(95*time.Millisecond, nil)
	want(v1alpha1.PluginCircuitOpen, "80ms or more of the 100ms", "10 times in a row")
	now = now.Add(firstPause)
	ask(99*time.Millisecond, nil)
	want(v1alpha1.PluginCircuitOpen, "still slow")
}

// TestBreakerPausesAreBounded: one that never does well is tried again for ever.
func TestBreakerPausesAreBounded(t *testing.T) {
	now := time.Now()
	b := &breaker{}
	defer b.close()
	for range 20 {
		for b.admit(now) == nil {
			b.note(now, 0, time.Second, errors.New("no"), func() {})
		}
		now = b.until
	}
	if b.pause != lastPause {
		t.Errorf("pause of %s, want %s", b.pause, lastPause)
	}
}

func TestCoarse(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 1, 7: 7, 9: 10, 40 << 20: 40 << 20, 41 << 20: 48 << 20, 63 << 20: 64 << 20} {
		if got := coarse(n); got != want {
			t.Errorf("coarse(%d) is %d, want %d", n, got, want)
		}
	}
}
