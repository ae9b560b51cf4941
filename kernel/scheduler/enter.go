package scheduler

import (
	"container/heap"
	"context"
	"strings"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// enterBatch is how many pods plugins are asked about at once on their way into
// the queue.
const enterBatch = 256

// sortKey is a pod's place in the queue as a plugin gave it.
type sortKey struct {
	number int64
	text   string
}

// again sends every pod that is to be tried through its entrance: another plugin
// may order or refuse it.
func (q *queue) again(now time.Time) {
	var all []*podEntry
	all = append(append(append(all, q.active.items...), q.backoff.items...), q.doorstep...)
	for _, p := range all {
		p.keyed = false
		q.add(p, now)
	}
}

// admit puts a pod that may be tried into its heap.
func (q *queue) admit(p *podEntry, now time.Time) {
	p.admitted = true
	if p.ready.After(now) {
		p.place = backingOff
		heap.Push(&q.backoff, p)
		return
	}
	p.place = active
	heap.Push(&q.active, p)
}

// enter asks about the pods that stand at the queue's entrance, in batches: may
// they be tried, and where in the queue is their place.
func (s *Scheduler) enter(ctx context.Context) {
	if len(s.queue.doorstep) == 0 || s.flush(ctx) != nil {
		return
	}
	for len(s.queue.doorstep) > 0 && ctx.Err() == nil {
		now := s.clock.Now()
		batch := map[*profile][]*podEntry{}
		n := min(len(s.queue.doorstep), enterBatch)
		for _, p := range s.queue.doorstep[:n] {
			profile := s.profiles[p.pod.Spec.SchedulerName]
			batch[profile] = append(batch[profile], p)
		}
		for profile, pods := range batch {
			s.enterBatch(ctx, profile, pods, now)
		}
	}
}

func (s *Scheduler) enterBatch(ctx context.Context, profile *profile, pods []*podEntry, now time.Time) {
	for _, p := range pods {
		s.queue.remove(p)
	}
	if profile == nil || profile.at.cycler == nil {
		for _, p := range pods {
			s.queue.admit(p, now)
		}
		return
	}
	refused := map[*podEntry]*stopped{}
	if profile.at.has(contractv1.Point_PRE_ENQUEUE) {
		c := &contractv1.CycleCall{Steps: profile.at.steps(contractv1.Point_PRE_ENQUEUE), Pods: queuedAll(pods)}
		profile.at.cycler.Cycle(ctx, c)
		if ctx.Err() != nil {
			return
		}
		for k, r := range c.Results {
			info := &profile.at.points[contractv1.Point_PRE_ENQUEUE][c.Steps[k].Plugin]
			for i, a := range r.GetPods() {
				if p := pods[i]; refused[p] == nil && a.GetCode() != contractv1.Code_SUCCESS && a.GetCode() != contractv1.Code_SKIP {
					refused[p] = &stopped{contractv1.Point_PRE_ENQUEUE, info, a.GetCode(), a.GetReasons()}
				}
			}
		}
		if stop := profile.at.stop(c); stop != nil {
			for _, p := range pods {
				if refused[p] == nil {
					refused[p] = stop
				}
			}
		}
	}
	var admitted []*podEntry
	for _, p := range pods {
		if stop := refused[p]; stop != nil {
			s.turnAway(p, stop, now)
		} else {
			admitted = append(admitted, p)
		}
	}
	s.keys(ctx, profile, admitted, now)
	for _, p := range admitted {
		s.queue.admit(p, now)
	}
}

// turnAway keeps a pod out of the queue. Its users are told nothing, as by
// kube-scheduler: it is not ready to be tried.
func (s *Scheduler) turnAway(p *podEntry, stop *stopped, now time.Time) {
	d := &Decision{
		Namespace: p.namespace, Name: p.name, UID: p.uid, Time: now, Attempt: p.attempts, Nodes: s.snapshot.count,
		Message: stop.reason(), Outcomes: []Outcome{stop.outcome()},
	}
	if stop.refused() {
		ready := p.ready
		s.queue.park(p, stop.failure(), now)
		p.ready = ready // it was not tried
		if stop.info.Scope != "cluster" {
			p.failed.cluster, p.failed.arrivals = false, false
		}
	} else {
		d.Message = stop.err().Error()
		s.trouble(stop.err(), now)
		s.queue.retry(p, now)
	}
	s.record.keep(d)
}

// keys asks for the places of pods that have none yet. Without an answer they
// are ordered among the others by priority.
func (s *Scheduler) keys(ctx context.Context, profile *profile, pods []*podEntry, now time.Time) {
	if !profile.at.has(contractv1.Point_QUEUE_SORT) {
		return
	}
	var fresh []*podEntry
	for _, p := range pods {
		if !p.keyed {
			fresh = append(fresh, p)
		}
	}
	if len(fresh) == 0 {
		return
	}
	c := &contractv1.CycleCall{Steps: profile.at.steps(contractv1.Point_QUEUE_SORT)[:1], Pods: queuedAll(fresh)}
	profile.at.cycler.Cycle(ctx, c)
	var keys []*contractv1.SortKey
	if stop := profile.at.stop(c); stop != nil {
		s.trouble(stop.err(), now)
	} else if len(c.Results) > 0 {
		keys = c.Results[0].GetKeys()
	}
	for i, p := range fresh {
		p.key = sortKey{number: -int64(p.priority)}
		if i < len(keys) {
			p.key, p.keyed = sortKey{keys[i].GetNumber(), keys[i].GetText()}, true
		}
	}
}

func queuedAll(pods []*podEntry) []*contractv1.QueuedPod {
	out := make([]*contractv1.QueuedPod, len(pods))
	for i, p := range pods {
		out[i] = p.queued()
	}
	return out
}

// before is the order of the active queue.
func (q *queue) before(a, b *podEntry) bool {
	if q.sorted {
		if a.key.number != b.key.number {
			return a.key.number < b.key.number
		}
		if c := strings.Compare(a.key.text, b.key.text); c != 0 {
			return c < 0
		}
		return a.since.Before(b.since)
	}
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.since.Before(b.since)
}
