package loop

import (
	"context"
	"time"
)

// Loop is for one goroutine, which starts and stops it in turn. The zero Loop does not run.
type Loop struct {
	stop context.CancelFunc
	done chan struct{}
}

// Start calls a function once a period, the first time after one, until ctx or the loop ends.
func (l *Loop) Start(ctx context.Context, period time.Duration, do func(context.Context)) {
	ctx, l.stop = context.WithCancel(ctx)
	done := make(chan struct{})
	l.done = done
	go func() {
		defer close(done)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if ctx.Err() != nil {
				return // both may have been there
			}
			do(ctx)
		}
	}()
}

// Stop ends the loop and waits for it. One that does not run is left alone.
func (l *Loop) Stop() {
	if l.stop == nil {
		return
	}
	l.stop()
	<-l.done
	l.stop = nil
}
