package resultcache

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Independent reports whether a pod of the class changes the answers about the class
// on no node but its own, and each answer is good until something changes.
func (c *Class) Independent(ctx context.Context) bool {
	asked, ok := c.policy.(contractv1.Indifferer)
	for p := range c.predicates {
		if !c.predicates[p].independent(func() bool { return ok && asked.IndifferentVerdict(ctx, p, c.id) }) {
			return false
		}
	}
	for i := range c.priorities {
		if !c.priorities[i].independent(func() bool { return ok && asked.IndifferentScore(ctx, i, c.id) }) {
			return false
		}
	}
	return true
}

// independent reports whether a pod of the class changes the plugin's answers on no
// node but its own. Asked once, unless the plugin's other answers say it already.
func (p *pluginCache) independent(ask func() bool) bool {
	switch {
	case p.stale:
		return false
	case p.skip.now || !p.looksBeyond():
		return true
	case !p.skip.asked:
		p.skip.asked, p.skip.indifferent = true, ask()
	}
	return p.skip.indifferent
}
