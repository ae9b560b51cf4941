package scheduler

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// idle is whether a plugin has nothing to say about a class: a predicate lets it pass
// on all nodes, a priority gives it 0. It is not asked about nodes then.
type idle struct {
	now   bool
	stays bool // in this decision: it was before

	// indifferent, where it was asked: pods of the class do not concern each other.
	indifferent, asked bool
}

// rest asks the plugins whether they have nothing to say, where that may be another
// answer than before: objects that they read changed.
func (c *class) rest(ctx context.Context, s *snapshot) {
	idler, ok := c.policy.(contractv1.Idler)
	if !ok {
		return
	}
	for p := range c.predicates {
		if i := &c.idleP[p]; c.known && c.readsP[p] == c.version(s, c.predicates[p].Reads, c.readsP[p]) && !c.stale[p] {
			i.stays = i.now
		} else {
			now := idler.IdleVerdict(ctx, p, c.id)
			*i = idle{now: now, stays: now && i.now}
		}
	}
	for k := range c.priorities {
		i := &c.idleS[k]
		if c.known && c.readsS[k] == c.version(s, c.priorities[k].Reads, c.readsS[k]) && !c.staleS[k] {
			continue
		}
		now := idler.IdleScore(ctx, k, c.id)
		if now && !i.now {
			// From here on all raw scores are 0, and nobody has to remember them.
			c.raw[k], c.have[k], c.norm[k] = nil, nil, nil
			c.moved[k], c.unmeasured[k], c.tallied = true, true, false
		}
		*i = idle{now: now}
	}
}
