package rig

import (
	"context"
	"sync"
	"sync/atomic"
)

// Parallel runs do(0) to do(n-1) on several workers until one fails.
func Parallel(ctx context.Context, n, workers int, do func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
