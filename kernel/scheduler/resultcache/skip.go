package resultcache

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// skip is whether a plugin has nothing to say about a class: a predicate lets it pass
// on all nodes, a priority gives it 0. It is not asked about nodes then.
type skip struct {
	now    bool
	before bool // in this decision: it had nothing to say before, too

	// indifferent, where it was asked: pods of the class do not concern each other.
	indifferent, asked bool
}

// askSkips asks the plugins whether they have nothing to say, where objects that they
// read changed.
func (u *update) askSkips(ctx context.Context) {
	idler, ok := u.policy.(contractv1.Idler)
	if !ok {
		return
	}
	for p := range u.predicates {
		cache := &u.predicates[p]
		if cache.fresh(u) {
			cache.skip.before = cache.skip.now
			continue
		}
		now := idler.IdleVerdict(ctx, p, u.id)
		cache.skip = skip{now: now, before: now && cache.skip.now}
	}
	for i := range u.priorities {
		cache := &u.priorities[i]
		if cache.fresh(u) {
			continue
		}
		now := idler.IdleScore(ctx, i, u.id)
		if now && !cache.skip.now {
			// From here on all raw scores are 0, so none is kept.
			cache.raw, cache.have, cache.norm = nil, nil, nil
			cache.moved, cache.unmeasured, u.totalled = true, true, false
		}
		cache.skip = skip{now: now}
	}
}
