package scheduler

import (
	"context"
	"slices"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	// hintRest is how many times as long as looking at events took they are not
	// looked at afterwards: pods that fit nowhere take a small part of the cycle at
	// most, however many they are.
	hintRest = 12
	// hintBatch bounds the groups of one question.
	hintBatch = 256
)

// question is what a plugin is asked about events: all groups that it refused.
type question struct {
	profile *profile
	plugin  int // at QUEUEING_HINT
	groups  []*podGroup
	events  []int
	listed  map[int]bool
}

// questionKey is whom a question goes to.
type questionKey struct {
	scheduler string
	plugin    string
}

// settleEvents brings back those pods of the pool that the events since can help.
func (s *Scheduler) settleEvents(ctx context.Context, now time.Time) {
	if len(s.events) == 0 && s.lost == 0 || len(s.queue.groups) == 0 && len(s.waiting) == 0 {
		s.forgetEvents()
		s.lost = 0
		return
	}
	if now.Before(s.hintsRest) && s.hintsRest.Sub(now) < time.Minute { // or the clock was set back
		return
	}
	began := s.clock.Now()
	if !s.hintedAll(ctx) {
		if overtaken(ctx) {
			// Others were asked meanwhile, and pods that wait for the answer are tried.
			s.hintsRest = s.clock.Now().Add(hintRest * contractv1.YieldAfter)
		}
		return
	}
	for _, g := range s.queue.groups {
		g.from = s.eventSeq
	}
	if len(s.waiting) == 0 {
		s.forgetEvents()
		s.lost = 0
	}
	end := s.clock.Now()
	s.hintsRest = end.Add(hintRest * end.Sub(began))
}

// hintedAll works out whom the events help; false: the run ends.
func (s *Scheduler) hintedAll(ctx context.Context) bool {
	s.sortEvents()
	helped := map[*podGroup]int{}
	questions := map[questionKey]*question{}
	for _, g := range s.queue.groups {
		if s.lost > g.from {
			s.release(g, s.lost, eventMany)
			continue
		}
		s.consult(g, helped, questions)
	}
	if len(questions) > 0 {
		if s.flush(ctx) != nil {
			return false
		}
		for _, q := range questions {
			s.ask(ctx, q, helped)
			if ctx.Err() != nil {
				return false
			}
		}
	}
	for g, at := range helped {
		s.release(g, s.events[at].seq, s.events[at].label())
	}
	return true
}

// sortEvents puts the events in the order of their numbers.
func (s *Scheduler) sortEvents() {
	if slices.IsSortedFunc(s.events, compareEvents) {
		return
	}
	slices.SortFunc(s.events, compareEvents)
	for at := range s.events {
		s.eventAt[s.events[at].eventKey] = at
	}
}

func compareEvents(a, b clusterEvent) int {
	switch {
	case a.seq < b.seq:
		return -1
	case a.seq > b.seq:
		return 1
	}
	return 0
}

// consult goes through the events that a group has not seen, the last one first,
// until one helps by what the plugins declared; what they want to be asked about
// becomes questions.
func (s *Scheduler) consult(g *podGroup, helped map[*podGroup]int, questions map[questionKey]*question) {
	for at := len(s.events) - 1; at >= 0 && s.events[at].seq > g.from; at-- {
		e := &s.events[at]
		if e.seq == g.except || e.capped && g.shape.Message.GetPriority() > e.ceiling {
			continue
		}
		for k := range g.failed.Rejectors {
			r := &g.failed.Rejectors[k]
			wants, hint := r.Wants(e.kind, e.action)
			if !wants {
				continue
			}
			if !hint {
				helped[g] = at
				return
			}
			s.enquire(g, r.Name, at, helped, questions)
		}
	}
}

// enquire adds a group and an event to the question for a plugin. A plugin that
// is not there any more cannot say that it does not help.
func (s *Scheduler) enquire(g *podGroup, plugin string, at int, helped map[*podGroup]int, questions map[questionKey]*question) {
	key := questionKey{g.scheduler, plugin}
	q := questions[key]
	if q == nil {
		q = &question{profile: s.profiles[g.scheduler], plugin: -1, listed: map[int]bool{}}
		if q.profile != nil {
			q.plugin = slices.IndexFunc(q.profile.at.Points[contractv1.Point_QUEUEING_HINT], func(i contractv1.PointInfo) bool { return i.Name == plugin })
		}
		questions[key] = q
	}
	if q.plugin < 0 || !s.asks(q.profile) {
		helped[g] = max(helped[g], at)
		return
	}
	if len(q.groups) == 0 || q.groups[len(q.groups)-1] != g {
		q.groups = append(q.groups, g)
	}
	if !q.listed[at] {
		q.listed[at] = true
		q.events = append(q.events, at)
	}
}

// ask asks a plugin, and takes an error for a yes: a pod may be tried once too
// often, never once too few.
func (s *Scheduler) ask(ctx context.Context, q *question, helped map[*podGroup]int) {
	if len(q.groups) == 0 {
		return
	}
	slices.Sort(q.events)
	events := make([]*contractv1.Event, len(q.events))
	for k, at := range q.events {
		events[k] = s.events[at].message()
	}
	for groups := range slices.Chunk(q.groups, hintBatch) {
		c := &contractv1.CycleCall{
			Steps:  []contractv1.CycleStep{{Point: contractv1.Point_QUEUEING_HINT, Plugin: q.plugin}},
			Events: events, Classes: make([]uint32, len(groups)), Pods: make([]*contractv1.QueuedPod, len(groups)),
		}
		for k, g := range groups {
			c.Pods[k] = &contractv1.QueuedPod{}
			if g.shape.class != nil {
				c.Classes[k] = g.shape.class.Number()
			} else {
				c.Pods[k].Pod = g.shape.Message
			}
		}
		at := q.profile.at
		if at.Cycler == nil || q.plugin >= len(at.Points[contractv1.Point_QUEUEING_HINT]) {
			return // the profile turned to another policy, which brings everybody back
		}
		began := time.Now()
		s.begin(work{profile: q.profile})
		at.Cycler.Cycle(ctx, c)
		s.end()
		if ctx.Err() != nil {
			return
		}
		took, useful := time.Since(began), make([]bool, len(events))
		stop := at.Stop(c)
		if stop != nil {
			s.trouble(stop.Err(), s.clock.Now())
		}
		for k, g := range groups {
			last := len(events)
			if stop == nil && len(c.Results) > 0 && k < len(c.Results[0].GetHelps()) {
				last = int(c.Results[0].GetHelps()[k])
			}
			if last == 0 {
				continue
			}
			useful[last-1] = true
			event := q.events[last-1]
			if best, known := helped[g]; s.events[event].seq > g.from && s.events[event].seq != g.except && (!known || event > best) {
				helped[g] = event
			}
		}
		s.deps.Metrics.hinted(at.Name(c.Steps[0]), s.labels(q.events), useful, stop != nil, took)
	}
}

// labels are what events are called, by their places in the list.
func (s *Scheduler) labels(events []int) []string {
	labels := make([]string, len(events))
	for k, at := range events {
		labels[k] = s.events[at].label()
	}
	return labels
}

// release brings back the pods of a group whose last attempt did not see an event.
func (s *Scheduler) release(g *podGroup, seq uint64, event string) {
	now := s.clock.Now()
	for p := range g.pods {
		if p.seen < seq {
			s.queue.add(p, entry{event: event}, now)
		}
	}
}
