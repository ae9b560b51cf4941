package resultcache

import (
	"context"
	"fmt"
)

// filter settles the listed nodes, one predicate after the other over those
// that the ones before let pass (SCH-12).
func (u *update) filter(ctx context.Context) error {
	u.unreserve()
	alive := u.list[:0:len(u.list)]
	for _, n := range u.list {
		if u.view.ByIndex[n] != nil && u.narrowing.allows(n) {
			alive = append(alive, n)
		} else {
			u.settle(n, absent)
		}
	}
	for p := range u.predicates {
		if len(alive) == 0 {
			break
		}
		if u.predicates[p].skip.now {
			continue
		}
		if err := u.askVerdicts(ctx, p, alive); err != nil {
			return err
		}
		verdicts, passed := u.predicates[p].verdicts, alive[:0]
		for _, n := range alive {
			if verdicts[n] == 0 {
				passed = append(passed, n)
			} else {
				u.settle(n, int32(p))
			}
		}
		alive = passed
	}
	alive, err := u.keepRoom(ctx, alive)
	if err != nil {
		return err
	}
	for _, n := range alive {
		u.settle(n, fits)
	}
	if u.fitOld {
		u.fit = u.fit[:0]
		for n, f := range u.fail {
			if f == fits {
				u.fit = append(u.fit, uint32(n))
			}
		}
	}
	return nil
}

// askVerdicts asks predicate p about those of the nodes whose verdict is unknown.
func (u *update) askVerdicts(ctx context.Context, p int, nodes []uint32) error {
	cache := &u.predicates[p]
	if u.listUnknown(cache.verdicts, nodes) {
		u.filterTogether(ctx, p, nodes)
	}
	if !u.listUnknown(cache.verdicts, nodes) {
		return nil
	}
	u.verdicts = grow(u.verdicts, len(u.ask), 0)[:len(u.ask)]
	if err := u.policy.Filter(ctx, p, u.id, u.ask, u.verdicts); err != nil {
		if !cache.IgnoreFailure || ctx.Err() != nil {
			return fmt.Errorf("predicate %s: %w", cache.Name, err)
		}
		cache.stale = true
		clear(u.verdicts)
	}
	u.verdictsUntil(p)
	for k, n := range u.ask {
		cache.verdicts[n] = u.verdicts[k]
	}
	return nil
}

// listUnknown fills c.ask with the nodes whose verdict must be asked for.
func (u *update) listUnknown(verdicts, nodes []uint32) bool {
	u.ask = u.ask[:0]
	for _, n := range nodes {
		if verdicts[n] == unknown {
			u.ask = append(u.ask, n)
		}
	}
	return len(u.ask) > 0
}
