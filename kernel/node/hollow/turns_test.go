package hollow

import (
	"context"
	"sync"
	"testing"
)

// TestTurnsAreHandedOut: simulated nodes work beside a busy API too, and what
// waits ends with its context.
func TestTurnsAreHandedOut(t *testing.T) {
	for name, load := range map[string]int{"quiet": 0, "busy": 100} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			turns := newTurns(func() int { return load })
			var wg sync.WaitGroup
			wg.Go(func() { turns.run(ctx) })
			for range 3 * busyTurns {
				turns.wait(ctx)
			}
			cancel()
			wg.Wait()
			turns.wait(ctx)
		})
	}
}

// TestTurnsApart: without an API in this process no round waits, and a heartbeat comes
// before all of them.
func TestTurnsApart(t *testing.T) {
	turns := newTurns(nil)
	turns.run(t.Context()) // returns at once
	first, second := turns.wait(t.Context()), turns.wait(t.Context())
	if a, b := turns.of(first), turns.of(second); a != 1 || b != 2 {
		t.Errorf("rounds %d and %d, want 1 and 2", a, b)
	}
	if n := turns.of(t.Context()); n != 0 {
		t.Errorf("a heartbeat is of round %d, want 0", n)
	}
}
