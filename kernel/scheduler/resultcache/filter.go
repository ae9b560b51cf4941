package resultcache

import (
	"context"
	"fmt"
)

// filter settles the listed nodes, one predicate after the other over those
// that the ones before let pass (SCH-12).
func (c *Class) filter(ctx context.Context, s *View) error {
	c.unreserve()
	alive := c.list[:0:len(c.list)]
	for _, n := range c.list {
		if s.ByIndex[n] != nil && c.narrowing.allows(n) {
			alive = append(alive, n)
		} else {
			c.settle(n, absent)
		}
	}
	for p := range c.predicates {
		if len(alive) == 0 {
			break
		}
		if c.predicates[p].skip.now {
			continue
		}
		if err := c.askVerdicts(ctx, p, alive); err != nil {
			return err
		}
		verdicts, passed := c.predicates[p].verdicts, alive[:0]
		for _, n := range alive {
			if verdicts[n] == 0 {
				passed = append(passed, n)
			} else {
				c.settle(n, int32(p))
			}
		}
		alive = passed
	}
	alive, err := c.keepRoom(ctx, s, alive)
	if err != nil {
		return err
	}
	for _, n := range alive {
		c.settle(n, fits)
	}
	if c.fitOld {
		c.fit = c.fit[:0]
		for n, f := range c.fail {
			if f == fits {
				c.fit = append(c.fit, uint32(n))
			}
		}
	}
	return nil
}

// askVerdicts asks predicate p about those of the nodes whose verdict is unknown.
func (c *Class) askVerdicts(ctx context.Context, p int, nodes []uint32) error {
	cache := &c.predicates[p]
	if c.listUnknown(cache.verdicts, nodes) {
		c.filterTogether(ctx, p, nodes)
	}
	if !c.listUnknown(cache.verdicts, nodes) {
		return nil
	}
	c.scratch.verdicts = grow(c.scratch.verdicts, len(c.ask), 0)[:len(c.ask)]
	if err := c.policy.Filter(ctx, p, c.id, c.ask, c.scratch.verdicts); err != nil {
		if !cache.IgnoreFailure || ctx.Err() != nil {
			return fmt.Errorf("predicate %s: %w", cache.Name, err)
		}
		cache.stale = true
		clear(c.scratch.verdicts)
	}
	c.verdictsUntil(p)
	for k, n := range c.ask {
		cache.verdicts[n] = c.scratch.verdicts[k]
	}
	return nil
}

// listUnknown fills c.ask with the nodes whose verdict must be asked for.
func (c *Class) listUnknown(verdicts, nodes []uint32) bool {
	c.ask = c.ask[:0]
	for _, n := range nodes {
		if verdicts[n] == unknown {
			c.ask = append(c.ask, n)
		}
	}
	return len(c.ask) > 0
}

// FailedPredicate is the first predicate that failed and was ignored.
func (c *Class) FailedPredicate() (name string, some bool) {
	for p := range c.predicates {
		if c.predicates[p].stale {
			return c.predicates[p].Name, true
		}
	}
	return "", false
}
