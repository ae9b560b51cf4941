package scheduler

import (
	"container/heap"
	"context"
	"slices"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin that takes long holds up its own profile. The cycle asks on the goroutine
// that owns its state; when an answer is late, the policy offers to yield, and another
// goroutine owns the state and decides about pods of other profiles meanwhile. Those of
// the profile wait (heldBack). When the answer is there, what it was about is no more:
// the decision is dropped, with all that it was made of, and the pods are tried again.
//
// A plugin that did answer needs its time. Its profile may keep the cycle that long the
// next time, so that there comes an end, and rests afterwards while others have
// something to decide.

// restFactor is how many times as long as a decision kept the cycle its profile rests.
const restFactor = 4

// underway is what the cycle is doing while it can be left; the zero value: it cannot.
type underway struct {
	profile *profile
	pod     *podEntry
	// run are pods that are assumed ahead, behind pod.
	run   []runner
	first uint32 // the node of pod, then
}

// cycleContext is the context of one owner of the cycle's state.
type cycleContext struct {
	context.Context //nolint:containedctx // it is one
	s               *Scheduler
	profile         *profile // whose plugin is late
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

// Yield implements contractv1.Yielder.
func (c *cycleContext) Yield() bool {
	s := c.s
	now := s.clock.Now()
	if c.overtaken || s.under.profile == nil || s.snapshot.supposing || !s.others(s.under.profile) || now.Before(s.keeps) {
		return false
	}
	c.profile, c.began = s.under.profile, now
	s.abandon()
	c.profile.away++
	s.heldBack = true
	s.ownership.Leave(func() bool { return s.loop(c.Context) })
	return true
}

// Resume implements contractv1.Yielder.
func (c *cycleContext) Resume(answered bool) {
	s := c.s
	s.ownership.Return()
	c.overtaken = true
	c.profile.away--
	c.profile.patience = 0
	if answered {
		c.profile.patience = 2 * (contractv1.YieldAfter + s.clock.Since(c.began))
	}
	s.queue.comeBack(func(p *podEntry) bool { return s.profiles[p.pod.Spec.SchedulerName] == c.profile })
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
	under := s.under
	s.under, s.deciding = underway{}, false
	if c := under.pod.shape.class; c != nil {
		s.dropClass(slices.Index(s.classes, c)) // the one who asks goes on with it, for nothing
	}
	s.snapshot.scratch = &scratch{}
	if under.run == nil {
		under.pod.began = time.Time{}
		s.queue.holdBack(under.pod)
		return
	}
	s.takenAt[under.first] = 0
	for i := range under.run {
		s.takenAt[under.run[i].taken.node] = 0
	}
	s.takeBackRun(under.run)
	s.run = nil
}

// next takes the next pod for an attempt, of a profile that can decide; nil: none is
// ready.
func (s *Scheduler) next(now time.Time) *podEntry {
	p := s.queue.pop(now)
	if !s.heldBack {
		return p
	}
	free := func(p *podEntry) bool {
		profile := s.profiles[p.pod.Spec.SchedulerName]
		return profile == nil || profile.away == 0 && !now.Before(profile.rests)
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
		profile := s.profiles[p.pod.Spec.SchedulerName]
		return profile == nil || profile.away == 0
	})
	s.heldBack = len(s.queue.heldBack) > 0 || s.ownership.Away() > 0
	return s.queue.pop(now)
}

// away reports whether a plugin of a profile has not answered.
func (s *Scheduler) away(profile *profile) bool { return profile != nil && profile.away > 0 }

// rested notes how long a decision kept the cycle.
func (s *Scheduler) rested(profile *profile, began time.Time) {
	s.keeps = time.Time{}
	if profile.patience == 0 {
		return
	}
	if now := s.clock.Now(); now.Sub(began) > contractv1.YieldAfter {
		profile.rests, s.heldBack = now.Add(restFactor*now.Sub(began)), true
	} else {
		profile.patience = 0
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
