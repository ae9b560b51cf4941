package scheduler

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"pintle.dev/pintle/kernel/scheduler/handover"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin that takes long holds up its own profile. The cycle asks on the goroutine
// that owns its state; when an answer is late, the policy offers to yield, and another
// goroutine owns the state and decides about pods of other profiles meanwhile. Those of
// the profile wait (heldBack). When the answer is there, what a decision was about is no
// more: the decision is dropped, with all that it was made of, and the pods are tried
// again; so are pods at the entrance of the queue. What is asked about a pod that has
// its node counts, however late the answer is.
//
// A plugin that did answer needs its time. Its profile may keep the cycle that long the
// next time, so that there comes an end, and rests afterwards while others have
// something to decide.

// restFactor is how many times as long as a decision kept the cycle its profile rests.
const restFactor = 4

// again says what comes of an answer that is late.
type again uint8

const (
	notAgain    again = iota // it counts, or nobody needs it
	decideAgain              // the pod is decided about once more
	enterAgain               // pods at the entrance of the queue are asked about once more
	againKinds
)

// work is something that the cycle is in the middle of, and that can be left. One may
// be part of another, which is left with it.
type work struct {
	profile *profile // whose plugins are asked
	again   again
	// pod is being decided about; run are pods that are assumed ahead behind it, and
	// first is its node then.
	pod   *podEntry
	batch []batched
	first uint32
	// left does what else is to be done when it is left; nil: nothing.
	left func()
	// keyless: the answer is about the order of the queue, and the profile goes on
	// without it.
	keyless bool
}

// begin notes work that can be left until end.
func (s *Scheduler) begin(w work) { s.works = append(s.works, w) }

// end ends the work that began last. Work that was left has ended.
func (s *Scheduler) end() {
	if last := len(s.works) - 1; last >= 0 {
		s.works[last] = work{}
		s.works = s.works[:last]
	}
}

// cycleContext is the context of one owner of the cycle's state.
type cycleContext struct {
	context.Context                 //nolint:containedctx // its values
	run             context.Context //nolint:containedctx // which it ends with
	s               *Scheduler
	asked           work // that was left
	began           time.Time
	overtaken       bool
}

var _ contractv1.Yielder = (*cycleContext)(nil)

// Err implements context.Context.
func (c *cycleContext) Err() error {
	if c.overtaken {
		return contractv1.Overtaken{}
	}
	return c.Context.Err()
}

// Value implements context.Context.
func (c *cycleContext) Value(key any) any {
	if key == contractv1.YielderKey {
		return c
	}
	return c.Context.Value(key)
}

// besideContext is the context of what goes on beside the cycle: with the values of the
// cycle's, whose answers may be overtaken without an end of the run.
type besideContext struct {
	context.Context                 // the run's
	values          context.Context //nolint:containedctx // they are all that it is for
}

// Value implements context.Context.
func (c besideContext) Value(key any) any {
	if key == contractv1.YielderKey {
		return nil
	}
	return c.values.Value(key)
}

// beside is a context for other goroutines than the cycle's.
func beside(ctx context.Context) context.Context {
	if c, ok := contractv1.YielderOf(ctx).(*cycleContext); ok {
		return besideContext{c.run, ctx}
	}
	return ctx
}

// overtaken reports whether others owned the state since a context was made.
func overtaken(ctx context.Context) bool { return ctx.Err() == error(contractv1.Overtaken{}) }

// renewed is a context of an owner that goes on after it was overtaken.
func (s *Scheduler) renewed(ctx context.Context) context.Context {
	c, ok := contractv1.YielderOf(ctx).(*cycleContext)
	if !ok {
		return ctx
	}
	return &cycleContext{Context: beside(ctx), run: c.run, s: s}
}

// Yield implements contractv1.Yielder.
func (c *cycleContext) Yield() bool {
	s := c.s
	now, last := s.clock.Now(), len(s.works)-1
	if c.overtaken || last < 0 || !s.others(s.works[last].profile) || now.Before(s.keeps) {
		return false
	}
	c.asked, c.began = s.works[last], now
	back := s.hypothetical.back(s.snapshot)
	s.abandon()
	if c.asked.keyless {
		c.asked.profile.keyless++
	} else {
		c.asked.profile.away++
		s.heldBack = true
	}
	s.ownership.Leave(func() bool {
		if len(back) > 0 && s.applyAll(c.run, back) != nil {
			return false
		}
		return s.loop(c.run)
	})
	return true
}

// Resume implements contractv1.Yielder.
func (c *cycleContext) Resume(answered bool) {
	s, profile := c.s, c.asked.profile
	s.ownership.Return()
	c.overtaken = true
	if c.asked.keyless {
		profile.keyless--
		return
	}
	profile.away--
	if again := c.asked.again; again != notAgain {
		profile.patience[again] = 0
		if answered {
			profile.patience[again] = 2 * (contractv1.YieldAfter + s.clock.Since(c.began))
		}
	}
	s.queue.comeBack(func(p *podEntry) bool { return s.profiles[p.Object.Spec.SchedulerName] == profile })
}

// others reports whether there is another profile than one.
func (s *Scheduler) others(than *profile) bool {
	for _, p := range s.profiles {
		if p != than && !p.removed {
			return true
		}
	}
	return false
}

// abandon gives up what the cycle is doing, as if it had not begun.
func (s *Scheduler) abandon() {
	works := s.works
	s.works, s.deciding = nil, false
	for _, w := range slices.Backward(works) {
		if w.left != nil {
			w.left()
		}
		if w.pod == nil {
			continue
		}
		s.abandonClass(w.pod.shape.class)
		if w.batch == nil {
			w.pod.began = time.Time{}
			s.queue.holdBack(w.pod)
			continue
		}
		s.takenAt[w.first] = 0
		for i := range w.batch {
			s.takenAt[w.batch[i].taken.Node] = 0
		}
		s.takeBackBatch(w.batch)
		s.batch = nil
	}
}

// abandonClass forgets a class that is being brought up to date, or asked about. Who
// asks goes on with it, for nothing.
func (s *Scheduler) abandonClass(c *resultcache.Class) {
	if at := slices.IndexFunc(s.cached, func(sh *shape) bool { return sh.class == c }); at >= 0 {
		s.dropClass(at)
	}
	s.view.Renew()
}

// attended is a call to somebody outside, which does not say itself when it is late.
func attended(ctx context.Context, call func() error) (err error) {
	y := contractv1.YielderOf(ctx)
	if y == nil {
		return call()
	}
	if handover.Watch(func() { err = call() }, contractv1.YieldAfter, y.Yield) {
		y.Resume(err == nil)
	}
	return err
}

// next takes the next pod for an attempt, of a profile that can decide; nil: none is
// ready.
func (s *Scheduler) next(now time.Time) *podEntry {
	p := s.queue.pop(now)
	if !s.heldBack {
		return p
	}
	free := func(p *podEntry) bool {
		profile := s.profiles[p.Object.Spec.SchedulerName]
		return profile == nil || profile.decides() && !now.Before(profile.rests)
	}
	if p != nil {
		s.queue.unpop(p)
	}
	s.queue.comeBack(free)
	for {
		p := s.queue.pop(now)
		if p == nil {
			break
		}
		if free(p) {
			return p
		}
		s.queue.holdBack(p)
	}
	// Nobody has anything to decide: there is no reason to rest.
	s.queue.comeBack(func(p *podEntry) bool {
		profile := s.profiles[p.Object.Spec.SchedulerName]
		return profile == nil || profile.decides()
	})
	s.heldBack = len(s.queue.heldBack) > 0 || s.ownership.Away() > 0
	return s.queue.pop(now)
}

// decides reports whether a profile's plugins can be asked: each question has its
// answer, and they were fed.
func (p *profile) decides() bool { return p.away == 0 && !p.feeding }

// asks is decides of a profile that there may be.
func (s *Scheduler) asks(p *profile) bool { return p == nil || p.decides() }

// grant lets a profile keep the cycle that needed its time.
func (s *Scheduler) grant(profile *profile, of again, began time.Time) {
	if patience := profile.patience[of]; patience > 0 {
		s.keeps = began.Add(patience)
	}
}

// rested notes how long something kept the cycle.
func (s *Scheduler) rested(profile *profile, of again, began time.Time) {
	s.keeps = time.Time{}
	if profile.patience[of] == 0 {
		return
	}
	if now := s.clock.Now(); now.Sub(began) > contractv1.YieldAfter {
		profile.rests, s.heldBack = now.Add(restFactor*now.Sub(began)), true
	} else {
		profile.patience[of] = 0
	}
}

// holdBack puts a pod aside that was taken for an attempt.
func (q *queue) holdBack(p *podEntry) {
	p.attempts--
	p.place, p.index = heldBack, len(q.heldBack)
	q.heldBack = append(q.heldBack, p)
}

// comeBack puts those pods back into the active queue that were held back.
func (q *queue) comeBack(which func(*podEntry) bool) {
	for _, p := range slices.Clone(q.heldBack) {
		if which(p) {
			q.remove(p)
			p.place = active
			heap.Push(&q.active, p)
		}
	}
}
