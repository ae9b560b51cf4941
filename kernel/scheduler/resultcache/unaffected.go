package resultcache

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// askUnaffected asks the plugins that look at pods on nodes whether they ignore pods of
// the class.
func (c *Class) askUnaffected(ctx context.Context) {
	c.unaffected = nil
	asked, ok := c.policy.(contractv1.Aloofer)
	if !ok {
		return
	}
	u := &snapshot.Unaffected{Policy: c.policy, Generation: c.generation}
	for p := range min(len(c.predicates), 64) {
		if c.predicates[p].looksAtPods() && asked.AloofVerdict(ctx, p, c.id) {
			u.Predicates |= 1 << p
		}
	}
	for i := range min(len(c.priorities), 64) {
		if c.priorities[i].looksAtPods() && asked.AloofScore(ctx, i, c.id) {
			u.Priorities |= 1 << i
		}
	}
	if u.Policy.Generation() == u.Generation {
		c.unaffected = u // else a plugin failed meanwhile, or came back
	}
}

// findUntouched finds the plugins to which nothing happened since the last update: they
// ignore pods of the class and all pods that came and went.
func (c *Class) findUntouched(s *View) {
	c.untouchedPredicates, c.untouchedPriorities = 0, 0
	touched, ok := s.Log.Since(c.position)
	if !ok || !c.known || c.unaffected == nil {
		return
	}
	predicates, priorities := c.unaffected.Predicates, c.unaffected.Priorities
	var last *snapshot.Unaffected
	for i := range touched {
		t := &touched[i]
		if t.IgnoredBy == last && last != nil {
			continue
		}
		if last = t.IgnoredBy; last == nil || last.Policy != c.unaffected.Policy || last.Generation != c.unaffected.Generation {
			return
		}
		if predicates, priorities = predicates&last.Predicates, priorities&last.Priorities; predicates|priorities == 0 {
			return
		}
	}
	c.untouchedPredicates, c.untouchedPriorities = predicates, priorities
}
