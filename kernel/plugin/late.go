package plugin

import (
	"context"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A question that has no answer after contractv1.YieldAfter holds nobody else up, if
// who asks it can do something else meanwhile (contractv1.Yielder). The unit's lock is
// let go of: others find a guest that is busy, and deltas wait, as they do for a guest
// that is being fed. A module says itself that it is late, in the calls to the host
// that metered code makes; a process is watched by a timer.

// lending is what a unit keeps of a question under way. The unit's mu guards it, and
// while it is lent, whoever asked.
type lending struct {
	asking context.Context //nolint:containedctx // of the question; nil: none is under way
	// lent is closed when a question is over that was late; nil: none was.
	lent chan struct{}
	// sending was queued before it was late, later came since.
	sending, later []guest.Part
	operations     int // in sending
}

// asked ends a question that began by setting asking; mu is held.
func (u *unit) asked() {
	u.asking = nil
	if u.lent != nil {
		u.settleLent()
	}
}

func (u *unit) Yields() bool { return u.asking != nil && contractv1.YielderOf(u.asking) != nil }

// lend lets go of mu, which the goroutine of the question holds while it waits.
func (u *unit) Lend() bool {
	if !u.Yields() || !contractv1.YielderOf(u.asking).Yield() {
		return false
	}
	if u.lent == nil {
		u.lent, u.catching, u.whole, u.missed = make(chan struct{}), make(chan struct{}), false, false
	}
	u.patience = time.Now().Add(u.call)
	u.sending, u.operations, u.queue, u.queued = u.queue, u.queued, nil, 0
	u.mu.Unlock()
	return true
}

// reclaim takes mu again, and what lend put aside.
func (u *unit) Reclaim(answered bool) {
	contractv1.YielderOf(u.asking).Resume(answered)
	u.mu.Lock()
	u.later = append(u.later, u.queue...)
	u.queue, u.queued, u.sending = u.sending, u.operations, nil
	if u.guest == nil {
		u.queue, u.queued = nil, 0
	}
}

// settleLent ends a question that was late: the guest is there for others, and gets
// what came meanwhile.
func (u *unit) settleLent() {
	close(u.lent)
	later, whole := u.later, u.whole
	u.lending = lending{}
	u.caughtUp()
	if u.guest == nil {
		return
	}
	if u.missed {
		defer u.changed()
	}
	for _, p := range later {
		generation := p.Delta.GetGeneration()
		switch {
		case whole:
		case p.Delta.GetReset_():
			u.queue, u.queued = nil, 0
		case generation <= u.fed:
			continue
		case p.After > u.fed:
			whole = true
		}
		u.enqueue(p)
		u.fed = generation
	}
	switch {
	case whole && u.source() != nil:
		u.catchUpLater(true)
	case u.queued > guest.PartOperations:
		u.catchUpLater(false)
	}
}

// returned waits until no question to a guest is under way that was taken out of
// service; mu is held, and let go of.
func (u *unit) returned() {
	lent := u.lent
	u.mu.Unlock()
	if lent != nil {
		<-lent
	}
}

// unhurried is a context of who waits for an answer and keeps nothing of others
// meanwhile: a guest that is late is busy for them, and its answer counts.
func unhurried(ctx context.Context) context.Context { return unhurriedContext{ctx} }

type unhurriedContext struct{ context.Context }

var _ contractv1.Yielder = unhurriedContext{}

// Value implements context.Context.
func (c unhurriedContext) Value(key any) any {
	if key == contractv1.YielderKey {
		return c
	}
	return c.Context.Value(key)
}

// Yield implements contractv1.Yielder.
func (unhurriedContext) Yield() bool { return true }

// Resume implements contractv1.Yielder.
func (unhurriedContext) Resume(bool) {}

// keepsNobody reports whether who asks now waits for nobody in turn.
func (u *unit) keepsNobody() bool {
	_, ok := contractv1.YielderOf(u.asking).(unhurriedContext)
	return ok
}

// awaitYielding waits like await for one who can do something else, without holding mu. It
// reports whether to go on waiting.
func (u *unit) awaitYielding(ctx context.Context, y contractv1.Yielder, left time.Duration) bool {
	caught, busy, wait := u.catching, u.lent != nil && !u.keepsNobody(), min(left, contractv1.YieldAfter)
	u.mu.Unlock()
	defer u.mu.Lock()
	if !within(ctx, caught, wait) || wait == left {
		return true
	}
	if !y.Yield() {
		return !busy // another waits for it already
	}
	within(ctx, caught, left-wait)
	y.Resume(false)
	return false
}

// within waits for a channel; it reports whether the time was over first.
func within(ctx context.Context, c <-chan struct{}, d time.Duration) (over bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
		return true
	case <-ctx.Done():
	}
	return false
}
