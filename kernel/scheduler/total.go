package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"

	"pintle.dev/pintle/sdk"
)

// choose returns the node with the highest total of weighted, normalised
// scores (SCH-17), and that total. Of several, one is picked at random (SCH-18).
// There must be a node that fits. A score out of range counts as the nearer
// end: a plugin may be wrong, it may not outweigh the others.
func (c *class) choose(ctx context.Context, random *rand.Rand) (node uint32, total int64, err error) {
	best, err := c.totals(ctx)
	if err != nil {
		return 0, 0, err
	}
	if len(c.top) == 1 {
		return c.top[0], best, nil
	}
	return c.top[random.IntN(len(c.top))], best, nil
}

// totals fills c.sum, parallel to c.fit, and c.top with the nodes on the best.
func (c *class) totals(ctx context.Context) (best int64, err error) {
	c.sum = grow(c.sum, len(c.fit), 0)[:len(c.fit)]
	clear(c.sum)
	for i := range c.priorities {
		if err := c.weigh(ctx, i); err != nil {
			return 0, err
		}
	}
	best = c.sum[0]
	for _, sum := range c.sum {
		best = max(best, sum)
	}
	c.top = c.top[:0]
	for k, sum := range c.sum {
		if sum == best {
			c.top = append(c.top, c.fit[k])
		}
	}
	return best, nil
}

// weigh adds one priority's part to the totals.
func (c *class) weigh(ctx context.Context, i int) error {
	info, raw := &c.priorities[i], c.raw[i]
	weight := info.Weight
	if weight == 0 {
		return nil
	}
	switch kind := sdk.Normalize(info.Normalize); kind {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		var largest int64
		for _, n := range c.fit {
			largest = max(largest, raw[n])
		}
		c.largest[i] = largest
		for k, n := range c.fit {
			c.sum[k] += weight * scale(kind, info.Most(), raw[n], largest)
		}
	case sdk.NormalizePlugin:
		if c.moved[i] || info.Scope == string(sdk.ScopeCluster) {
			c.norm[i] = grow(c.norm[i], len(c.fit), 0)[:len(c.fit)]
			for k, n := range c.fit {
				c.norm[i][k] = raw[n]
			}
			if err := c.policy.Normalize(ctx, i, c.id, c.fit, c.norm[i]); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				c.trouble = fmt.Errorf("priority %s: %w", info.Name, err)
				clear(c.norm[i])
				c.moved[i] = true
			} else {
				c.moved[i] = false
			}
		}
		for k, score := range c.norm[i] {
			c.sum[k] += weight * clamp(score, info.Most())
		}
	default:
		for k, n := range c.fit {
			c.sum[k] += weight * clamp(raw[n], info.Most())
		}
	}
	return nil
}

// scale brings a raw score to 0–most.
func scale(kind sdk.Normalize, most, raw, largest int64) int64 {
	raw = max(raw, 0)
	if largest == 0 {
		if kind == sdk.NormalizeMax {
			return 0
		}
		return most
	}
	// Scores near the limits of an int64 would overflow the product.
	for largest > 1<<56 {
		largest >>= 4
		raw >>= 4
	}
	switch kind {
	case sdk.NormalizeReverseMax:
		return most * (largest - raw) / largest
	case sdk.NormalizeReverse:
		return most - most*raw/largest
	}
	return most * raw / largest
}

func clamp(score, most int64) int64 { return min(max(score, 0), most) }
