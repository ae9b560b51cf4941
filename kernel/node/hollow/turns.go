package hollow

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// turnPace is how often simulated nodes are given turns.
	turnPace = 50 * time.Millisecond
	// busyTurns and quietTurns are how many rounds of work for a pod all hollow
	// nodes together may begin at one pace: 20 a second beside other work,
	// which keeps them alive, and as many as they can do without.
	busyTurns, quietTurns = 1, 512
	// busyRequests is how many requests are in flight when others are at work:
	// more than the hollow nodes' own and a controller's.
	busyRequests = hollowShare + 2
	// calm is how long an API without others is called quiet after: they pause.
	calm = 200 * time.Millisecond
)

// turns hands out the rounds of work of all hollow nodes. Nodes of a real
// cluster work on machines of their own; simulated ones give way to other users
// of an API in the same process.
type turns struct {
	inFlight func() int // nil: no API is in this process, and no round waits
	next     chan struct{}
	busy     time.Time // when others were last at work
	begun    atomic.Uint64
}

// roundKey is the key of a context's value: the number of the round of work.
type roundKey struct{}

func newTurns(inFlight func() int) *turns {
	return &turns{inFlight: inFlight, next: make(chan struct{})}
}

// wait returns when it is the caller's turn, or ctx ends, with the context of the round
// of work that begins then.
func (t *turns) wait(ctx context.Context) context.Context {
	if t.inFlight != nil {
		select {
		case <-t.next:
		case <-ctx.Done():
		}
	}
	return context.WithValue(ctx, roundKey{}, t.begun.Add(1))
}

// of is the number of the round that ctx belongs to. What belongs to none, as a heartbeat, is as
// old as the youngest. Where rounds do not wait there are many at once, and it comes before all.
func (t *turns) of(ctx context.Context) uint64 {
	if n, ok := ctx.Value(roundKey{}).(uint64); ok {
		return n
	}
	if t.inFlight == nil {
		return 0
	}
	return t.begun.Load()
}

// run hands out turns until ctx ends; without a taker it sleeps.
func (t *turns) run(ctx context.Context) {
	if t.inFlight == nil {
		return
	}
	pace := time.NewTicker(turnPace)
	defer pace.Stop()
	for {
		// The load is looked at before each: the last may have waited long.
		for given := 0; given < t.allowed(); given++ {
			select {
			case t.next <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// allowed is how many rounds may begin at this pace.
func (t *turns) allowed() int {
	now := time.Now()
	if t.inFlight() > busyRequests {
		t.busy = now
	}
	if now.Sub(t.busy) < calm {
		return busyTurns
	}
	return quietTurns
}
