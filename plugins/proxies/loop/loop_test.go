package loop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestLoop: it calls once a period, ends with Stop or its context, and starts again.
func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Loop
		l.Stop() // of one that never ran
		calls := 0
		for range 2 {
			calls = 0
			l.Start(t.Context(), time.Second, func(context.Context) { calls++ })
			time.Sleep(3*time.Second + time.Millisecond)
			synctest.Wait()
			if calls != 3 {
				t.Errorf("%d calls in three periods", calls)
			}
			l.Stop()
			time.Sleep(time.Minute)
			if calls != 3 {
				t.Errorf("%d calls after the stop", calls-3)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		l.Start(ctx, time.Second, func(ctx context.Context) { <-ctx.Done(); calls++ })
		time.Sleep(2 * time.Second)
		cancel()
		l.Stop()
		if calls != 4 {
			t.Errorf("a stop did not wait for the call that ran: %d", calls)
		}
	})
}
