package scheduler

import (
	"context"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// aloof is to which plugins of a policy pods of a class are aloof: one of them that
// comes to a node, or goes, does not change what the plugin says of a class that is
// aloof to it too. Nobody asks it about the node then. It is never changed.
type aloof struct {
	policy     Policy
	generation uint64

	predicates, priorities pluginSet
}

// pluginSet is a set of the first 64 plugins of a kind, by index.
type pluginSet uint64

func (s pluginSet) has(i int) bool { return i < 64 && s&(1<<i) != 0 }

// askAloof asks the plugins that look at pods on nodes to which of them pods of the
// class are aloof.
func (c *class) askAloof(ctx context.Context) {
	c.aloof = nil
	asked, ok := c.policy.(contractv1.Aloofer)
	if !ok {
		return
	}
	a := &aloof{policy: c.policy, generation: c.generation}
	all := func(n int, scope func(i int) string, ask func(ctx context.Context, i int, class uint32) bool) (set pluginSet) {
		for i := range min(n, 64) {
			if scope(i) != string(sdk.ScopeNodeObject) && ask(ctx, i, c.id) {
				set |= 1 << i
			}
		}
		return set
	}
	a.predicates = all(len(c.predicates), func(p int) string { return c.predicates[p].Scope }, asked.AloofVerdict)
	a.priorities = all(len(c.priorities), func(i int) string { return c.priorities[i].Scope }, asked.AloofScore)
	if a.policy.Generation() == a.generation {
		c.aloof = a // else a plugin failed meanwhile, or came back
	}
}

// heedless finds the plugins to which nothing happened since the last update: the
// class and all pods that came and went are aloof to them.
func (c *class) heedless(s *snapshot) {
	c.calmP, c.calmS = 0, 0
	touched, ok := s.log.since(c.position)
	if !ok || !c.known || c.aloof == nil {
		return
	}
	predicates, priorities := c.aloof.predicates, c.aloof.priorities
	var last *aloof
	for i := range touched {
		t := &touched[i]
		if t.by == last && last != nil {
			continue
		}
		if last = t.by; last == nil || last.policy != c.aloof.policy || last.generation != c.aloof.generation {
			return
		}
		if predicates, priorities = predicates&last.predicates, priorities&last.priorities; predicates|priorities == 0 {
			return
		}
	}
	c.calmP, c.calmS = predicates, priorities
}

// aloofness is that of a pod of the shape that occupies a node. One that is another
// pod for scores when it is placed is not what the plugins were asked about.
func (s *shape) aloofness() *aloof {
	if s.class == nil || s.placedApart() {
		return nil
	}
	return s.class.aloof
}
