package wasm

import (
	"context"
	"fmt"

	"pintle.dev/pintle/kernel/plugin/guest"
)

// take returns an idle instance, a new one where there are few, or the next
// that becomes idle. It is given back.
func (r *reviewers) take(ctx context.Context, of *Guest) (g *Guest, err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, guest.Unavailable(of.name)
	}
	r.busy.Add(1)
	more := len(r.idle) == 0 && r.made < MaxReviewers
	if more {
		r.made++
	}
	r.mu.Unlock()
	defer func() {
		if err != nil {
			r.busy.Done()
		}
	}()
	if more {
		if g, err = of.further(of.settings.Words); err != nil {
			r.mu.Lock()
			r.made--
			r.mu.Unlock()
		}
		return g, err
	}
	select {
	case g = <-r.idle:
		if g, err = of.current(g, of.settings.Words); err != nil {
			r.idle <- g
		}
		return g, err
	case <-ctx.Done():
		return nil, fmt.Errorf("plugin bundle %s: all %d instances are busy: %w", of.name, MaxReviewers, ctx.Err())
	}
}

// give hands an instance back; one that broke is thrown away.
func (r *reviewers) give(g *Guest, whole bool) {
	defer r.busy.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !whole || r.closed {
		r.made--
		_ = g.Close(context.Background(), 0)
		return
	}
	r.idle <- g // has room for all that were made
}

// close ends the instances and waits for those that are in a call, which has a
// deadline: the module that they run is unmapped next.
func (r *reviewers) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.busy.Wait()
	for {
		select {
		case g := <-r.idle:
			_ = g.Close(context.Background(), 0)
		default:
			return
		}
	}
}
