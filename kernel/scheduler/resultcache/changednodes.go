package resultcache

import (
	"context"
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// changedNodes is what a plugin of scope cluster said of its answers for a class.
type changedNodes struct {
	since uint64 // the moment up to which the class has them
	known bool   // in this decision: no answers changed but those about nodes
	nodes []uint32
}

// askChangedNodes asks the plugins of scope cluster which of their answers for the class
// changed. Of those that do not know, every answer is void.
func (u *update) askChangedNodes(ctx context.Context) {
	for p := range u.predicates {
		changed := &u.predicates[p].changed
		changed.known, changed.nodes = u.untouchedPredicates.Has(p), changed.nodes[:0]
	}
	for i := range u.priorities {
		changed := &u.priorities[i].changed
		changed.known, changed.nodes = u.untouchedPriorities.Has(i), changed.nodes[:0]
	}
	mover, ok := u.policy.(contractv1.Mover)
	if !ok || !u.known || u.position == u.view.Log.End() {
		return
	}
	if _, ok := u.view.Log.Since(u.position); !ok {
		return
	}
	for p := range u.predicates {
		if cache := &u.predicates[p]; cache.asksForChanges() {
			cache.changed.take(mover.MovedVerdicts(ctx, p, u.id, cache.changed.since))
		}
	}
	for i := range u.priorities {
		if cache := &u.priorities[i]; cache.asksForChanges() {
			cache.changed.take(mover.MovedScores(ctx, i, u.id, cache.changed.since))
		}
	}
}

// asksForChanges reports whether the plugin's answers about nodes that did not change
// may be others. Its own changes are not known yet.
func (p *pluginCache) asksForChanges() bool {
	return p.looksBeyond() && !p.stale && !p.skip.now && !p.changed.known
}

func (m *changedNodes) take(now uint64, nodes []uint32, known bool) {
	m.since, m.known = now, known
	m.nodes = append(m.nodes[:0], nodes...)
}

// invalidateChanged forgets the verdicts of predicate p that changed.
func (u *update) invalidateChanged(p int) {
	cache := &u.predicates[p]
	for _, n := range cache.changed.nodes {
		if int(n) < len(cache.verdicts) {
			cache.verdicts[n] = unknown
			u.reconsider(n, p)
		}
	}
}

// invalidateChanged forgets the raw scores that changed.
func (p *priorityCache) invalidateChanged() {
	if !p.changed.known {
		return
	}
	for _, n := range p.changed.nodes {
		if int(n) < len(p.have) {
			p.have[n] = false
			p.moved = true
		}
	}
}

// askChangedScores adds the nodes that fit and whose raw score changed to those that
// priority i is asked about.
func (u *update) askChangedScores(i int) {
	cache := &u.priorities[i]
	if !cache.changed.known || len(cache.changed.nodes) == 0 {
		return
	}
	for _, n := range cache.changed.nodes {
		if int(n) < len(u.fail) && u.fail[n] == fits && !cache.have[n] {
			u.asks[i] = append(u.asks[i], n)
		}
	}
	slices.Sort(u.asks[i])
	u.asks[i] = slices.Compact(u.asks[i])
}
