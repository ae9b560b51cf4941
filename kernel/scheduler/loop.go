package scheduler

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// flushAt bounds the operations that wait for a decision to need them.
const flushAt = 256

// loop is the cycle: take in what happened, schedule one pod, again.
func (s *Scheduler) loop(ctx context.Context) {
	defer s.busy(false)
	for ctx.Err() == nil {
		s.drain()
		select {
		case f := <-s.inspections:
			f(ctx)
		default:
		}
		now := s.clock.Now()
		s.sweep(now)
		s.counts.hold(s.queue)
		if s.unsynced == 0 {
			prepared, err := s.prepare(ctx)
			if err != nil {
				return
			}
			if !prepared {
				s.wait(ctx, now)
				continue
			}
			s.settleEvents(ctx, now)
			if s.pointed {
				s.atPoints(ctx, now)
			}
			if p := s.queue.pop(now); p != nil {
				s.busy(true)
				s.schedule(ctx, p)
				continue
			}
			if s.eager || len(s.snapshot.pending) >= flushAt || len(s.unreserves) > 0 {
				s.eager = false
				if s.flush(ctx) != nil {
					return
				}
			}
		}
		s.wait(ctx, now)
	}
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
	for _, e := range s.snapshot.byName {
		pods += len(e.pods)
	}
	s.deps.Metrics.sizes(s.snapshot.count, pods, len(s.assumed.list))
	s.deps.Metrics.tracks(s.events)
}

// wait blocks until something arrives or is due.
func (s *Scheduler) wait(ctx context.Context, now time.Time) {
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
	if due, waits := s.reviewDue(); waits && (!timed || due.Before(at)) {
		at, timed = due, true
	}
	if timed {
		timer := s.clock.NewTimer(max(at.Sub(now), time.Millisecond))
		defer timer.Stop()
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
	case f := <-s.inspections:
		f(ctx)
	case <-due:
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
			s.log.Warn("pod was bound but not seen bound in time", "pod", p.namespace+"/"+p.name, "node", p.node)
			s.unassume(p)
			if p.pod.DeletionTimestamp == nil {
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
		if p == nil || p.node != "" {
			continue
		}
		nominated := p.nominated
		s.report.patch(note{pod: p.pod, reason: p.reason, message: p.message, at: now, nominated: &nominated})
	}
	s.unheard = nil
}

// atPoints does what plugins at points of the cycle need between decisions.
func (s *Scheduler) atPoints(ctx context.Context, now time.Time) {
	s.review(ctx, now)
	s.queue.wake(now)
	s.enter(ctx)
}
