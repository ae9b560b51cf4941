package scheduler

import (
	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
)

// Follow has a scheduler hand its deltas and decisions to c until release is called.
func (s *Scheduler) Follow(c *explain.Comparison) (release func()) {
	c.Begin(s)
	s.followMu.Lock()
	defer s.followMu.Unlock()
	change := func(edit func([]*explain.Comparison) []*explain.Comparison) {
		var now []*explain.Comparison
		if old := s.followers.Load(); old != nil {
			now = *old
		}
		next := edit(now)
		s.followers.Store(&next)
	}
	change(func(now []*explain.Comparison) []*explain.Comparison {
		return append(append([]*explain.Comparison{}, now...), c)
	})
	return func() {
		s.followMu.Lock()
		defer s.followMu.Unlock()
		change(func(now []*explain.Comparison) []*explain.Comparison {
			var next []*explain.Comparison
			for _, other := range now {
				if other != c {
					next = append(next, other)
				}
			}
			return next
		})
		c.End(s)
	}
}

// tellDelta and tellDecision are the cycle's part: they never wait.
func (s *Scheduler) tellDelta(delta *contractv1.Delta) {
	if followers := s.followers.Load(); followers != nil {
		for _, c := range *followers {
			c.OfferDelta(delta)
		}
	}
}

func (s *Scheduler) tellDecision(p *podEntry, d *explain.Decision, err error) {
	followers := s.followers.Load()
	if followers == nil || len(*followers) == 0 || err != nil || d.Nodes == 0 || p.shape.class == nil {
		return
	}
	told := &explain.ComparedDecision{
		Generation: s.replica.Generation, Class: p.shape.class.Number(), Profile: p.Object.Spec.SchedulerName,
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Node: d.Node, At: d.Time,
	}
	for _, c := range *followers {
		if c.Compares(told.Profile) {
			c.OfferDecision(told)
		}
	}
}
