package cronjob

import (
	"context"
	"time"
)

const (
	driftPeriod = 10 * time.Second
	// driftLimit is how far the clock may be moved without a new look at all
	// CronJobs; adjusting a clock slowly stays below it.
	driftLimit = time.Second
)

// watchClock calls moved whenever the wall clock went on by more or less than the
// time that passed. Waits go by the time that passes, so that a clock that is set
// ahead, or a machine that slept, would make them end late.
func watchClock(ctx context.Context, wall func() time.Time, moved func()) {
	tick := time.NewTicker(driftPeriod)
	defer tick.Stop()
	began := time.Now()
	offset := func() time.Duration {
		return wall().Round(0).Sub(began.Round(0)) - time.Since(began)
	}
	known := offset()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if o := offset(); (o - known).Abs() > driftLimit {
			known = o
			moved()
		}
	}
}
