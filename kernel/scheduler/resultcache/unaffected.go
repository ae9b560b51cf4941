package resultcache

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// askUnaffected asks the plugins that look at pods on nodes whether they ignore pods of
// the class.
func (u *update) askUnaffected(ctx context.Context) {
	u.unaffected = nil
	asked, ok := u.policy.(contractv1.Aloofer)
	if !ok {
		return
	}
	ignored := &snapshot.Unaffected{Policy: u.policy, Generation: u.generation}
	for p := range min(len(u.predicates), 64) {
		if u.predicates[p].looksAtPods() && asked.AloofVerdict(ctx, p, u.id) {
			ignored.Predicates |= 1 << p
		}
	}
	for i := range min(len(u.priorities), 64) {
		if u.priorities[i].looksAtPods() && asked.AloofScore(ctx, i, u.id) {
			ignored.Priorities |= 1 << i
		}
	}
	if ignored.Policy.Generation() == ignored.Generation {
		u.unaffected = ignored // else a plugin failed meanwhile, or came back
	}
}

// findUntouched finds the plugins to which nothing happened since the last update: they
// ignore pods of the class and all pods that came and went.
func (u *update) findUntouched() {
	u.untouchedPredicates, u.untouchedPriorities = 0, 0
	touched, ok := u.view.Log.Since(u.position)
	if !ok || !u.known || u.unaffected == nil {
		return
	}
	predicates, priorities := u.unaffected.Predicates, u.unaffected.Priorities
	var last *snapshot.Unaffected
	for i := range touched {
		t := &touched[i]
		if t.IgnoredBy == last && last != nil {
			continue
		}
		if last = t.IgnoredBy; last == nil || last.Policy != u.unaffected.Policy || last.Generation != u.unaffected.Generation {
			return
		}
		if predicates, priorities = predicates&last.Predicates, priorities&last.Priorities; predicates|priorities == 0 {
			return
		}
	}
	u.untouchedPredicates, u.untouchedPriorities = predicates, priorities
}
