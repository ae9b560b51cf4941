package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

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
	if c.tally.tied == 1 {
		return c.tally.nth(0), best, nil
	}
	return c.tally.nth(random.IntN(c.tally.tied)), best, nil
}

// totals brings the tally up to date and returns the best total. Nodes whose
// scores are what they were, by the same measure, are not looked at.
func (c *class) totals(ctx context.Context) (best int64, err error) {
	c.tally.resize(len(c.fail))
	every := !c.tallied || len(c.changed) > len(c.fit)/8
	c.remeasured = false
	for i := range c.priorities {
		other, err := c.project(ctx, i)
		if err != nil {
			return 0, err
		}
		every, c.remeasured = every || other, c.remeasured || other
	}
	switch {
	case every:
		c.tallyAll()
	case len(c.changed) > 0:
		same, differ := c.parts()
		for _, n := range c.changed {
			c.tally.set(n, c.total(n, same, differ))
		}
	}
	c.changed, c.flipped, c.tallied = c.changed[:0], false, true
	c.tally.lead()
	return c.tally.most, nil
}

// project brings up to date what one priority's scores are measured by; it reports
// whether that changed, so that any node may have another score by it.
func (c *class) project(ctx context.Context, i int) (other bool, err error) {
	info, raw := &c.priorities[i], c.raw[i]
	if info.Weight == 0 {
		return false, nil
	}
	if c.even(i) {
		return c.projectZero(i), nil
	}
	switch sdk.Normalize(info.Normalize) {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		if !c.flipped && !c.unmeasured[i] && c.tallied {
			return false, nil
		}
		c.unmeasured[i] = false
		var largest int64
		for _, n := range c.fit {
			largest = max(largest, raw[n])
		}
		other, c.largest[i] = largest != c.largest[i], largest
		return other, nil
	case sdk.NormalizeMinMax:
		if !c.flipped && !c.unmeasured[i] && c.tallied || len(c.fit) == 0 {
			return false, nil
		}
		c.unmeasured[i] = false
		least, largest := raw[c.fit[0]], raw[c.fit[0]]
		for _, n := range c.fit {
			least, largest = min(least, raw[n]), max(largest, raw[n])
		}
		other, c.least[i], c.largest[i] = least != c.least[i] || largest != c.largest[i], least, largest
		return other, nil
	case sdk.NormalizePlugin:
		if !c.moved[i] {
			return false, nil
		}
		c.norm[i] = grow(c.norm[i], len(c.fit), 0)[:len(c.fit)]
		zero := info.KeepsZero
		for k, n := range c.fit {
			c.norm[i][k] = c.rawOf(i, n)
			zero = zero && c.norm[i][k] == 0
		}
		if zero {
			// As before means for new nodes, too: they are in c.changed.
			other, c.zero[i], c.moved[i] = !c.zero[i], true, false
			return other, nil
		}
		c.zero[i] = false
		if err := c.policy.Normalize(ctx, i, c.id, c.fit, c.norm[i]); err != nil {
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			c.trouble = fmt.Errorf("priority %s: %w", info.Name, err)
			clear(c.norm[i])
			c.moved[i] = true
		} else {
			c.moved[i] = false
		}
		return true, nil
	}
	return false, nil
}

// even reports whether all nodes have one score by a priority: what 0 comes to.
func (c *class) even(i int) bool {
	info := &c.priorities[i]
	return c.idleS[i].now && (info.Normalize != string(sdk.NormalizePlugin) || info.KeepsZero)
}

// projectZero is project for such a priority.
func (c *class) projectZero(i int) (other bool) {
	other = c.least[i] != 0 || c.largest[i] != 0 || c.moved[i] && !c.zero[i]
	c.least[i], c.largest[i], c.unmeasured[i] = 0, 0, false
	c.zero[i], c.moved[i] = true, false
	return other
}

// rawOf is one priority's raw score of a node.
func (c *class) rawOf(i int, n uint32) int64 {
	if c.idleS[i].now {
		return 0
	}
	return c.raw[i][n]
}

// tallyAll adds up the totals of all nodes.
func (c *class) tallyAll() {
	t := &c.tally
	t.clear()
	for _, n := range c.fit {
		t.totals[n] = 0
	}
	for i := range c.priorities {
		info, raw := &c.priorities[i], c.raw[i]
		weight, most := info.Weight, info.Most()
		if weight == 0 {
			continue
		}
		if c.even(i) {
			if same := weight * c.normalised(i, 0); same != 0 {
				for _, n := range c.fit {
					t.totals[n] += same
				}
			}
			continue
		}
		switch kind := sdk.Normalize(info.Normalize); kind {
		case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
			largest := c.largest[i]
			for _, n := range c.fit {
				t.totals[n] += weight * scale(kind, most, raw[n], largest)
			}
		case sdk.NormalizeMinMax:
			// Most nodes score as the one before, and a division is dear.
			last, score := c.least[i], int64(0)
			for _, n := range c.fit {
				if raw[n] != last {
					last, score = raw[n], between(most, raw[n], c.least[i], c.largest[i])
				}
				t.totals[n] += weight * score
			}
		case sdk.NormalizePlugin:
			for k, n := range c.fit {
				t.totals[n] += weight * clamp(c.norm[i][k], most)
			}
		default:
			for _, n := range c.fit {
				t.totals[n] += weight * clamp(raw[n], most)
			}
		}
	}
	t.summariseAll()
}

// parts are what the totals of all nodes that fit have in common, and the priorities
// by which nodes may differ.
func (c *class) parts() (same int64, differ []int) {
	differ = c.differ[:0]
	for i := range c.priorities {
		info := &c.priorities[i]
		switch {
		case info.Weight == 0:
		case c.even(i) || c.level(i):
			if len(c.fit) > 0 {
				same += info.Weight * c.normalised(i, c.fit[0])
			}
		default:
			differ = append(differ, i)
		}
	}
	c.differ = differ
	return same, differ
}

// level reports whether a priority's raw scores are normalised to one score for all.
func (c *class) level(i int) bool {
	switch sdk.Normalize(c.priorities[i].Normalize) {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		return c.largest[i] == 0
	case sdk.NormalizeMinMax:
		return c.largest[i] <= c.least[i]
	case sdk.NormalizePlugin:
		return c.zero[i]
	}
	return false
}

// total adds up the total of one node, with what parts returned.
func (c *class) total(n uint32, same int64, differ []int) int64 {
	if c.fail[n] != fits {
		return none
	}
	for _, i := range differ {
		same += c.priorities[i].Weight * c.normalised(i, n)
	}
	return same
}

// normalised is one priority's score of a node that fits, by the measures of the
// totals that were made last.
func (c *class) normalised(i int, n uint32) int64 {
	info, raw := &c.priorities[i], c.rawOf(i, n)
	most := info.Most()
	switch kind := sdk.Normalize(info.Normalize); kind {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		return scale(kind, most, raw, c.largest[i])
	case sdk.NormalizeMinMax:
		return between(most, raw, c.least[i], c.largest[i])
	case sdk.NormalizePlugin:
		if len(c.norm[i]) == 0 {
			return 0
		}
		if k, ok := slices.BinarySearch(c.fit, n); ok && k < len(c.norm[i]) {
			return clamp(c.norm[i][k], most)
		}
		return 0
	}
	return clamp(raw, most)
}

// sums are the totals, parallel to c.fit.
func (c *class) sums() []int64 {
	list := make([]int64, len(c.fit))
	for k, n := range c.fit {
		list[k] = c.tally.totals[n]
	}
	return list
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

// between brings a raw score to 0–most by where it lies between two, as
// kube-scheduler does it.
func between(most, raw, least, largest int64) int64 {
	if largest <= least {
		return 0
	}
	if largest-least < 0 { // it overflows
		return clamp(int64(float64(most)*((float64(raw)-float64(least))/(float64(largest)-float64(least)))), most)
	}
	return clamp(int64(float64(most)*(float64(raw-least)/float64(largest-least))), most)
}

func clamp(score, most int64) int64 { return min(max(score, 0), most) }
