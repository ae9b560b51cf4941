package kernel

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
