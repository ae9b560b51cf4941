package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/observe"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	// holdOperations may wait for the next question, if they can travel with it.
	holdOperations = 64
	// queueParts may wait for a guest that is being fed; with more it is fed anew.
	queueParts = 4096
	// feedFactor: outside the cycle a part may take this many times a call.
	feedFactor = 10
)

// apply takes in a delta in the scheduling cycle. A small one goes to the guest
// at once or with the next question; a guest that is behind, or has a large one
// to take, is left to the supervisor. Failures break the guest; an error is that the
// delta cannot be encoded.
func (u *unit) apply(ctx context.Context, all *guest.Parts) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	generation, reset := all.Whole.Delta.GetGeneration(), all.Whole.Delta.GetReset_()
	u.wanted = generation
	if u.guest == nil {
		return nil
	}
	p, err := all.Of(u.podless)
	if err != nil {
		return err
	}
	switch {
	case u.catching != nil:
		u.enqueue(p)
		return nil
	case u.blind:
		u.queue, u.queued, u.fed, u.sent = nil, 0, generation, generation
		return nil
	case reset:
		u.queue, u.queued = nil, 0
	case u.fed == generation:
		return nil
	case u.fed+1 != generation:
		if u.source() != nil {
			u.catchUpLater(true)
		}
		return nil
	}
	u.enqueue(p)
	u.fed = generation
	if p.Large() || u.queued > guest.PartOperations {
		u.catchUpLater(false)
		return nil
	}
	if p.Empty() {
		return nil // it travels with what says something, or with a question
	}
	if e, ok := u.guest.(guest.Evaluator); !ok || !e.Evaluates() || u.queued > holdOperations {
		u.catchUpLater(false) // a guest that takes its time over it holds nobody up
	}
	return nil
}

// enqueue keeps a delta until the guest can take it; mu is held. Of those that say
// nothing one behind the other the last one is enough.
func (u *unit) enqueue(p guest.Part) {
	if last := len(u.queue) - 1; last >= 0 && p.Empty() && u.queue[last].Empty() && u.queue[last].Delta.GetGeneration() == p.After {
		p.After = u.queue[last].After
		u.queue[last] = p
		return
	}
	if len(u.queue) >= queueParts && u.source() != nil {
		u.queue, u.queued, u.whole = nil, 0, true
		return
	}
	u.queue = append(u.queue, p)
	u.queued += len(p.Delta.GetOperations())
}

// drain hands the guest what it is queued, within one call's deadline; mu is held.
func (u *unit) drain(ctx context.Context) error {
	deadline := time.Now().Add(u.call)
	queue, to := u.queue, u.guest
	if g, ok := to.(guest.BatchTaker); ok && g.Evaluates() && len(queue) > 1 && guest.BytesOf(queue) <= guest.PartBytes {
		switch err := g.ApplyAll(ctx, queue); {
		case err == nil:
			u.sent, queue = queue[len(queue)-1].Delta.GetGeneration(), nil
		case !errors.Is(err, guest.ErrAlone):
			u.applyFailed(ctx, err)
			return err
		}
	}
	for _, p := range queue {
		if err := to.Apply(ctx, p, max(time.Until(deadline), time.Millisecond)); err != nil {
			u.applyFailed(ctx, err)
			return err
		}
		if u.guest != to {
			return u.unavailable() // it was late, and was taken out of service
		}
		u.sent = p.Delta.GetGeneration()
	}
	u.emptied(u.sent)
	return nil
}

// emptied: the guest has what was queued for it; mu is held.
func (u *unit) emptied(sent uint64) {
	clear(u.queue)
	u.queue, u.queued, u.sent = u.queue[:0], 0, sent
	if cap(u.queue) > holdOperations {
		u.queue = nil
	}
}

// applyFailed: nobody knows how much of the queue the guest took; mu is held.
func (u *unit) applyFailed(ctx context.Context, err error) {
	if !contractv1.Ended(ctx) {
		u.broke(err)
		return
	}
	u.queue, u.queued, u.sent, u.fed = nil, 0, 0, 0
}

// catchUpLater leaves the guest to the supervisor until it has caught up. The
// cycle may wait for that as long as for one call. mu is held.
func (u *unit) catchUpLater(whole bool) {
	u.catching, u.whole, u.missed = make(chan struct{}), whole, false
	u.patience = time.Now().Add(u.call)
	select {
	case u.hungry <- struct{}{}:
	default:
	}
}

// caughtUp ends what catchUpLater began; mu is held.
func (u *unit) caughtUp() {
	if u.catching != nil {
		close(u.catching)
		u.catching = nil
	}
}

// settled reports whether the guest has what it was given, or is out of order,
// which may last.
func (u *unit) settled() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.guest == nil || u.failed || u.catching == nil {
		return true
	}
	u.missed = true // tell who asked
	return false
}

// catchUp feeds the guest part by part until it has everything. The supervisor
// calls it; mu is held for moments only, so that the scheduling cycle goes on.
func (u *unit) catchUp(ctx context.Context, g guest.Guest) error {
	for {
		u.mu.Lock()
		if u.guest != g || u.catching == nil {
			u.mu.Unlock()
			return nil
		}
		whole, queue, sent := u.whole, u.queue, u.sent
		u.whole, u.queue, u.queued = false, nil, 0
		if !whole && len(queue) == 0 {
			u.fed = sent
			u.caughtUp()
			missed := u.missed
			u.mu.Unlock()
			if missed {
				u.changed()
			}
			return nil
		}
		u.mu.Unlock()
		if whole {
			// What was queued until now is in the replica.
			full := u.replica()
			if full == nil {
				sent = 0 // the next delta shows the gap
			} else if err := u.send(ctx, g, full); err != nil {
				return err
			} else {
				sent = full.GetGeneration()
			}
			queue = nil
		}
		gap := false
		for _, p := range queue {
			generation := p.Delta.GetGeneration()
			if !p.Delta.GetReset_() {
				if generation <= sent {
					continue
				}
				if gap = p.After > sent; gap {
					break
				}
			}
			if err := u.sendPart(ctx, g, p); err != nil {
				return err
			}
			sent = generation
		}
		u.mu.Lock()
		u.sent = sent
		u.whole = u.whole || gap && u.source() != nil
		u.mu.Unlock()
	}
}

// sendPart hands over what was queued.
func (u *unit) sendPart(ctx context.Context, g guest.Guest, p guest.Part) error {
	if u.blind || p.Large() {
		return u.send(ctx, g, p.Delta)
	}
	return g.Apply(ctx, p, u.call*feedFactor)
}

func (u *unit) replica() *contractv1.Delta {
	if source := u.source(); source != nil {
		if full := source.Replica(); full.GetGeneration() > 0 {
			return full
		}
	}
	return nil
}

// blind reports whether plugins answer from what a class is alone.
func blind(described map[string]*contractv1.PluginDescription) bool {
	for _, d := range described {
		if kind := d.GetKind(); kind != sdk.KindPreEnqueue && kind != sdk.KindQueueSort || !d.GetByClass() || len(d.GetReads()) > 0 {
			return false
		}
	}
	return len(described) > 0
}

func (u *unit) send(ctx context.Context, g guest.Guest, delta *contractv1.Delta) error {
	if u.blind {
		return nil
	}
	if u.podless {
		delta = guest.WithoutPods(delta)
	}
	parts, err := guest.Split(delta)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := g.Apply(ctx, p, u.call*feedFactor); err != nil {
			return err
		}
	}
	return nil
}

// ready returns the guest with its replica at a generation, or on its way there
// in the queue. mu is held, and let go of while it waits.
func (u *unit) ready(ctx context.Context, generation uint64) (guest.Guest, error) {
	if u.guest != nil && u.catching == nil && u.fed != generation && u.source() != nil {
		u.catchUpLater(true)
	}
	u.await(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if u.guest == nil || u.catching != nil || u.fed != generation {
		u.missed = true
		return nil, u.unavailable()
	}
	return u.guest, nil
}

// await waits until the guest has caught up, as long as patience lasts. mu is
// held, and let go of while it waits.
func (u *unit) await(ctx context.Context) {
	for u.guest != nil && u.catching != nil {
		left := time.Until(u.patience)
		if left <= 0 || ctx.Err() != nil {
			break
		}
		if y := contractv1.YielderOf(ctx); y != nil {
			if !u.awaitYielding(ctx, y, left) {
				break
			}
			continue
		}
		caught, timer := u.catching, time.NewTimer(left)
		u.mu.Unlock()
		select {
		case <-caught:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		u.mu.Lock()
	}
}

// aside reports whether a call only saves others. That one of them went well is no
// sign that a plugin which dozes over nodes is well again.
func aside(call string) bool {
	return call == guest.CallIdle || call == guest.CallMoved || call == guest.CallIndifferent || call == guest.CallAloof
}

// ask runs one question against the guest at the given replica generation.
func (u *unit) ask(ctx context.Context, name, call string, generation uint64, question func(ctx context.Context, g guest.Guest, i int) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	g, err := u.ready(ctx, generation)
	if err != nil {
		return err
	}
	i, ok := u.index[name]
	if !ok {
		return u.unavailable()
	}
	// A look at the clock costs 50 ns, a question to a module a few hundred: two
	// looks are enough.
	handed := time.Now()
	began := handed
	s := u.counted(name)
	if err := s.admit(name, handed); err != nil {
		return err
	}
	u.asking = ctx
	defer u.asked()
	if len(u.queue) > 0 {
		if err := u.drain(ctx); err != nil {
			if !contractv1.Ended(ctx) {
				now := time.Now()
				u.noteOf(s, name, now, 0, now.Sub(handed), err)
			}
			return err
		}
		began = time.Now()
	}
	asking, span := u.span(ctx, name, call)
	u.answered, u.brief = contractv1.Code_SUCCESS, false
	err = question(asking, g, i)
	observe.EndSpan(span, err)
	if contractv1.Ended(ctx) {
		return err
	}
	now := time.Now()
	if err == nil && aside(call) && !slow(now.Sub(handed), u.call) {
		return nil
	}
	if u.brief {
		s.timed(now.Sub(began))
	}
	return u.concluded(s, name, u.answered, now, now.Sub(began), now.Sub(handed), err)
}

// concluded counts a question that was asked, and what is to be said of one that failed.
func (u *unit) concluded(s *stats, name string, code contractv1.Code, now time.Time, took, whole time.Duration, err error) error {
	u.noteOf(s, name, now, took, whole, err)
	if err == nil {
		s.ended(code, took)
		return nil
	}
	if by := "plugin " + guest.PluginOf(name) + ": "; !strings.HasPrefix(err.Error(), by) { // it may say its name itself
		err = fmt.Errorf("%s%w", by, err)
	}
	if errors.Is(err, guest.ErrBroken) {
		u.broke(err)
	} else if s.failed(err, time.Now()) {
		u.log.Warn("plugin did not answer a question", "error", err)
	}
	return err
}
