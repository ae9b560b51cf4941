package scheduler

import (
	"context"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// queued is the pod with its name, as plugins at points see it.
func (p *podEntry) queued() *contractv1.QueuedPod {
	q := &contractv1.QueuedPod{
		Pod:         p.shape.Occupant(p.Name, string(p.UID), ""),
		CreatedUnix: p.Object.CreationTimestamp.Unix(), Attempts: uint32(p.attempts),
	}
	if !p.since.IsZero() {
		q.QueuedUnixNano = p.since.UnixNano()
	}
	return q
}

// onNode is a call about a pod and the node that it has.
func (s *Scheduler) onNode(p *podEntry, node string, steps []contractv1.CycleStep) *contractv1.CycleCall {
	c := &contractv1.CycleCall{Steps: steps, Pods: []*contractv1.QueuedPod{p.queued()}, NodeName: node}
	if e := s.snapshot.ByName[node]; e != nil && e.Object != nil {
		c.Node, c.HasNode = e.Index, true
	}
	return c
}

// refusedAt parks or retries a pod that a plugin kept from its node.
func (s *Scheduler) refusedAt(p *podEntry, stop *framework.Status, d *explain.Decision) {
	d.Node = ""
	s.withdraw(p)
	d.Outcomes = append(d.Outcomes, stop.Outcome())
	if stop.Refused() {
		d.Message = resultcache.UnfitMessage(1, stop.ReasonCounts())
		s.queue.park(p, stop.Failure(), d.Time)
		if p.changed != 0 && p.wantsOwn(contractv1.Action(p.changed&^ownChange)) {
			s.queue.add(p, entry{event: eventPodUpdate}, d.Time)
		}
		s.tell(p, reasonUnschedulable, d)
		return
	}
	d.Message = stop.Err().Error()
	s.queue.retry(p, d.Time)
	s.tell(p, reasonSchedulerError, d)
}

// repoint takes in which points the profiles have, when one turned to another
// policy: a queue that was in another order is put in order anew.
func (s *Scheduler) repoint(ctx context.Context) {
	before := s.queue.entering
	s.queue.entering, s.queue.sorted = false, false
	for _, p := range s.profiles {
		p.at = framework.Plugins{}
		if p.policy == nil {
			continue
		}
		p.at = framework.PluginsOf(p.policy)
		s.queue.entering = s.queue.entering || p.at.Has(contractv1.Point_PRE_ENQUEUE, contractv1.Point_QUEUE_SORT)
		s.queue.sorted = s.queue.sorted || p.at.Has(contractv1.Point_QUEUE_SORT)
	}
	s.pointed = false
	for _, p := range s.profiles {
		s.pointed = s.pointed || p.at.Cycler != nil
	}
	if before || s.queue.entering {
		s.queue.again(s.clock.Now())
	}
	s.orphans(ctx)
}

const troubleWords = "a plugin at a point of the cycle failed"

// trouble logs what nobody else is told, once in a while.
func (s *Scheduler) trouble(err error, now time.Time) {
	if now.Sub(s.troubled) >= troubleEvery {
		s.troubled = now
		s.log.Warn(troubleWords, "err", err)
	}
}
