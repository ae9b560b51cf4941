package scheduler

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// forecast is what becomes of a node with the best total when it gets a pod more of
// the class. It is a guess and is verified: a node with as many pods and the same raw
// scores became that the last time. The zero value is what is most often so.
type forecast uint8

const (
	falls forecast = iota // its total is less
	stays                 // its total is the same
	rises                 // its total is more
)

// maxFates bounds what a class remembers of them.
const maxFates = 1 << 10

// taken is a node that gets a pod before the plugins are asked.
type taken struct {
	node     uint32
	was      uint64 // stands for the raw scores and the number of pods that it had
	forecast forecast
}

// take is a node that is to get a pod; its scores, and how many pods it has, are those
// before.
func (c *class) take(node uint32, pods int) taken {
	const prime = 1099511628211 // of the hash FNV-1a
	was := (uint64(14695981039346656037) ^ uint64(pods)) * prime
	for i := range c.priorities {
		was = (was ^ uint64(c.priorities[i].rawOf(node))) * prime
	}
	return taken{node, was, c.fates[was]}
}

// became notes what became of a node that had the best total and was told its pod;
// it reports whether that was forecast.
func (c *class) became(t taken, best int64) bool {
	fate := stays
	switch total := c.totals.totals[t.node]; {
	case total < best:
		fate = falls
	case total > best:
		fate = rises
	}
	if fate != c.fates[t.was] {
		if c.fates == nil || len(c.fates) >= maxFates {
			c.fates = map[uint64]forecast{}
		}
		c.fates[t.was] = fate
	}
	return fate == t.forecast
}

// chose reports whether a node was chosen by the totals, which still stand, of answers by
// a policy.
func (c *class) chose(policy contractv1.Policy, node uint32) bool {
	return policy == c.policy && c.known && c.trouble == nil && c.totalled && len(c.changed) == 0 && !c.flipped &&
		c.totals.totals[node] == c.totals.most
}

// upTo reports whether the class has taken in the change log up to a position.
func (c *class) upTo(position uint64) bool { return c.position == position }

// drop takes a node out of the totals: it is the one of a pod that the plugins were not
// told of.
func (c *class) drop(node uint32) {
	c.totals.drop(node)
	c.change(node)
}

// verify brings verdicts, scores and totals up to date after nodes got pods; it reports
// whether totals are comparable with those before.
func (c *class) verify(ctx context.Context, v *view) bool {
	if err := c.update(ctx, c.policy, v); err != nil || !c.totalled || c.flipped || c.trouble != nil {
		return false
	}
	if _, err := c.updateTotals(ctx); err != nil {
		c.forget()
		return false
	}
	return !c.remeasured && c.trouble == nil
}
