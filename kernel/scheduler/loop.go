package scheduler

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// flushAt bounds the operations that wait for a decision to need them.
const flushAt = 256

// loop is the cycle: take in what happened, schedule one pod, again.
// It ends with the context, or when somebody whose question was answered late is to go
// on with it (true).
func (s *Scheduler) loop(run context.Context) (gaveWay bool) {
	defer func() {
		if !gaveWay {
			s.busy(false)
		}
	}()
	ctx := &cycleContext{Context: run, run: run, s: s}
	for run.Err() == nil {
		if ctx.overtaken { // by others, who know what there is to do
			ctx = &cycleContext{Context: run, run: run, s: s}
		}
		s.drain()
		if s.ownership.Away() > 0 {
			select {
			case <-s.ownership.Wanted():
				return true
			default:
			}
		}
		select {
		case f := <-s.inspected():
			if f(ctx); ctx.overtaken {
				continue
			}
		default:
		}
		now := s.clock.Now()
		s.sweep(now)
		s.counts.hold(s.queue)
		if s.unsynced == 0 {
			prepared, err := s.prepare(ctx)
			if ctx.overtaken {
				continue
			}
			if err != nil {
				return false
			}
			if !prepared {
				if s.wait(ctx, now) {
					return true
				}
				continue
			}
			if s.settleEvents(ctx, now); ctx.overtaken {
				continue
			}
			s.queue.wakeDue(now)
			if s.pointed {
				if s.atPoints(ctx, now); ctx.overtaken {
					continue
				}
			}
			if p := s.next(now); p != nil {
				s.busy(true)
				s.schedule(ctx, p)
				continue
			}
			if s.eager || len(s.snapshot.Pending) >= flushAt || len(s.unreserves) > 0 {
				s.eager = false
				err := s.flush(ctx)
				if ctx.overtaken {
					continue
				}
				if err != nil {
					return false
				}
			}
		}
		if s.wait(ctx, now) {
			return true
		}
	}
	return false
}

// inspected is where questions about the state come from; from nowhere while somebody
// is to go on with it.
func (s *Scheduler) inspected() <-chan func(context.Context) {
	if s.ownership.Away() > 0 {
		return nil
	}
	return s.inspections
}

// busy tells that there is something to decide or to bind, or not any more.
func (s *Scheduler) busy(now bool) {
	if s.deps.Busy != nil && now != s.isBusy {
		s.isBusy = now
		s.deps.Busy(now)
	}
}

// drain takes in what has arrived, without waiting.
func (s *Scheduler) drain() {
	for range len(s.inbox) {
		s.take(<-s.inbox)
	}
	for range len(s.results) {
		s.bound(<-s.results)
	}
	for range len(s.preempted) {
		s.settlePreemption(<-s.preempted)
	}
	for range len(s.report.lost) {
		s.untold(<-s.report.lost)
	}
	select {
	case <-s.wake:
		s.policyChanged()
	default:
	}
}

// sized counts what the scheduler knows.
func (s *Scheduler) sized() {
	if s.counted = true; s.deps.Metrics == nil {
		return
	}
	pods := 0
	for _, e := range s.snapshot.ByName {
		pods += len(e.Pods)
	}
	s.deps.Metrics.sizes(s.snapshot.Count, pods, len(s.assumed.list))
	s.deps.Metrics.tracks(s.events)
}

// wait blocks until something arrives or is due, or somebody wants the state back.
func (s *Scheduler) wait(ctx context.Context, now time.Time) (gaveWay bool) {
	s.busy(len(s.binds) > 0)
	var due <-chan time.Time
	at, timed := s.queue.next()
	if len(s.assumed.list) > 0 || len(s.queue.pool) > 0 || !s.counted {
		if next := s.swept.Add(sweepEvery); !timed || next.Before(at) {
			at, timed = next, true
		}
	}
	if len(s.events) > 0 && (!timed || s.hintsRest.Before(at)) {
		at, timed = s.hintsRest, true
	}
	if next := s.queue.due; !next.IsZero() && (!timed || next.Before(at)) {
		at, timed = next, true
	}
	if due, waits := s.reviewDue(); waits && (!timed || due.Before(at)) {
		at, timed = due, true
	}
	if timed {
		timer := s.timerAt(at)
		defer timer.Stop()
		if at.After(now) && !s.clock.Now().Before(at) {
			return false // it became due since the cycle looked
		}
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case e := <-s.inbox:
		s.take(e)
	case r := <-s.results:
		s.bound(r)
	case r := <-s.preempted:
		s.settlePreemption(r)
	case uid := <-s.report.lost:
		s.untold(uid)
	case <-s.wake:
		s.policyChanged()
	case f := <-s.inspected():
		f(ctx)
	case <-s.ownership.Wanted():
		return true
	case <-due:
	}
	return false
}

// timerAt ends at a time. It is set again where the clock goes on between the look at
// it and the setting: it would end too late.
func (s *Scheduler) timerAt(at time.Time) clock.Timer {
	for {
		now := s.clock.Now()
		timer := s.clock.NewTimer(max(at.Sub(now), time.Millisecond))
		if s.clock.Since(now) < time.Millisecond {
			return timer
		}
		timer.Stop()
	}
}

const sweepEvery = time.Second

// sweep ends reservations that were never confirmed and empties the pool of
// what has been there for too long.
func (s *Scheduler) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	s.sized()
	for _, p := range slices.Clone(s.assumed.list) {
		if !p.boundAt.IsZero() && !p.boundAt.Add(s.cfg.AssumeTTL).After(now) {
			s.log.Warn("pod was bound but not seen bound in time", "pod", p.Namespace+"/"+p.Name, "node", p.Node)
			s.unassume(p)
			if p.Object.DeletionTimestamp == nil {
				s.queue.retry(p, now)
			}
		}
	}
	s.queue.flushStale(now)
	s.retell(now)
}

// untold notes that what was told of a pod did not arrive; it is told again in a
// while, as the pod may not be tried for long.
func (s *Scheduler) untold(uid types.UID) {
	if s.pods[uid] != nil {
		s.unheard = append(s.unheard, uid)
	}
}

// retell tells again what did not arrive.
func (s *Scheduler) retell(now time.Time) {
	for _, uid := range s.unheard {
		p := s.pods[uid]
		if p == nil || p.Node != "" {
			continue
		}
		nominated := p.nominated
		s.report.patch(note{pod: p.Object, reason: p.reason, message: p.message, at: now, nominated: &nominated})
	}
	s.unheard = nil
}

// atPoints does what plugins at points of the cycle need between decisions.
func (s *Scheduler) atPoints(ctx context.Context, now time.Time) {
	if s.review(ctx, now); overtaken(ctx) {
		return
	}
	s.queue.wake(now)
	s.enter(ctx)
}
