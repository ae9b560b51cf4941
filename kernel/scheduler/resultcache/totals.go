package resultcache

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"pintle.dev/pintle/sdk"
)

// Choose returns the node with the highest total of weighted, normalised
// scores (SCH-17), and that total. Of several, one is picked at random (SCH-18).
// There must be a node that fits. A score out of range counts as the nearer
// end: a plugin may be wrong, it may not outweigh the others.
func (c *Class) Choose(ctx context.Context, random *rand.Rand) (node uint32, total int64, err error) {
	best, err := c.UpdateTotals(ctx)
	if err != nil {
		return 0, 0, err
	}
	if c.totals.tied == 1 {
		return c.totals.Nth(0), best, nil
	}
	return c.totals.Nth(random.IntN(c.totals.tied)), best, nil
}

// Feasible are the nodes that fit, ascending; not to be changed.
func (c *Class) Feasible() []uint32 { return c.fit }

// UpdateTotals brings the totals up to date and returns the best one. Nodes whose
// scores are what they were, by the same measure, are not looked at.
func (c *Class) UpdateTotals(ctx context.Context) (best int64, err error) {
	c.totals.resize(len(c.fail))
	every := !c.totalled || len(c.changed) > len(c.fit)/8
	c.remeasured = false
	for i := range c.priorities {
		other, err := c.measure(ctx, i)
		if err != nil {
			return 0, err
		}
		every, c.remeasured = every || other, c.remeasured || other
	}
	switch {
	case every:
		c.totalAll()
	case len(c.changed) > 0:
		same, differ := c.parts()
		for _, n := range c.changed {
			c.totals.set(n, c.total(n, same, differ))
		}
	}
	c.changed, c.flipped, c.totalled = c.changed[:0], false, true
	c.totals.findMax()
	return c.totals.most, nil
}

// measure brings up to date what one priority's scores are measured by; it reports
// whether that changed, so that any node may have another score by it.
func (c *Class) measure(ctx context.Context, i int) (other bool, err error) {
	cache := &c.priorities[i]
	if cache.Weight == 0 {
		return false, nil
	}
	if cache.even() {
		return cache.measureZero(), nil
	}
	switch sdk.Normalize(cache.Normalize) {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		if !c.flipped && !cache.unmeasured && c.totalled {
			return false, nil
		}
		return cache.measureLargest(c.fit), nil
	case sdk.NormalizeMinMax:
		if !c.flipped && !cache.unmeasured && c.totalled || len(c.fit) == 0 {
			return false, nil
		}
		return cache.measureRange(c.fit), nil
	case sdk.NormalizePlugin:
		if !cache.moved {
			return false, nil
		}
		return c.normalize(ctx, i)
	}
	return false, nil
}

// measureLargest and measureRange measure by the raw scores of the nodes that fit.
func (p *priorityCache) measureLargest(fit []uint32) (other bool) {
	var largest int64
	for _, n := range fit {
		largest = max(largest, p.raw[n])
	}
	other, p.largest, p.unmeasured = largest != p.largest, largest, false
	return other
}

func (p *priorityCache) measureRange(fit []uint32) (other bool) {
	least, largest := p.raw[fit[0]], p.raw[fit[0]]
	for _, n := range fit {
		least, largest = min(least, p.raw[n]), max(largest, p.raw[n])
	}
	other = least != p.least || largest != p.largest
	p.least, p.largest, p.unmeasured = least, largest, false
	return other
}

// normalize has priority i normalise the raw scores of the nodes that fit.
func (c *Class) normalize(ctx context.Context, i int) (other bool, err error) {
	cache := &c.priorities[i]
	cache.norm = grow(cache.norm, len(c.fit), 0)[:len(c.fit)]
	zero := cache.KeepsZero
	for k, n := range c.fit {
		cache.norm[k] = cache.rawOf(n)
		zero = zero && cache.norm[k] == 0
	}
	if zero {
		// As before means for new nodes, too: they are in c.changed.
		other, cache.zero, cache.moved = !cache.zero, true, false
		return other, nil
	}
	cache.zero = false
	if err := c.policy.Normalize(ctx, i, c.id, c.fit, cache.norm); err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		c.trouble = fmt.Errorf("priority %s: %w", cache.Name, err)
		clear(cache.norm)
		cache.moved = true
	} else {
		cache.moved = false
	}
	return true, nil
}

// even reports whether all nodes have one score by the priority: what 0 comes to.
func (p *priorityCache) even() bool {
	return p.skip.now && (p.Normalize != string(sdk.NormalizePlugin) || p.KeepsZero)
}

// measureZero is measure for such a priority.
func (p *priorityCache) measureZero() (other bool) {
	other = p.least != 0 || p.largest != 0 || p.moved && !p.zero
	p.least, p.largest, p.unmeasured = 0, 0, false
	p.zero, p.moved = true, false
	return other
}

// totalAll adds up the totals of all nodes.
func (c *Class) totalAll() {
	t := &c.totals
	t.clear()
	for _, n := range c.fit {
		t.totals[n] = 0
	}
	for i := range c.priorities {
		if c.priorities[i].Weight != 0 {
			c.priorities[i].addTo(t.totals, c.fit)
		}
	}
	t.summariseAll()
}

// addTo adds the weighted scores of the nodes that fit to their totals.
func (p *priorityCache) addTo(totals []int64, fit []uint32) {
	weight, most, raw := p.Weight, p.Most(), p.raw
	if p.even() {
		if same := weight * p.normalised(fit, 0); same != 0 {
			for _, n := range fit {
				totals[n] += same
			}
		}
		return
	}
	switch kind := sdk.Normalize(p.Normalize); kind {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		largest := p.largest
		for _, n := range fit {
			totals[n] += weight * scale(kind, most, raw[n], largest)
		}
	case sdk.NormalizeMinMax:
		// Most nodes score as the one before, and a division is dear.
		last, score := p.least, int64(0)
		for _, n := range fit {
			if raw[n] != last {
				last, score = raw[n], between(most, raw[n], p.least, p.largest)
			}
			totals[n] += weight * score
		}
	case sdk.NormalizePlugin:
		for k, n := range fit {
			totals[n] += weight * clamp(p.norm[k], most)
		}
	default:
		for _, n := range fit {
			totals[n] += weight * clamp(raw[n], most)
		}
	}
}

// parts are what the totals of all nodes that fit have in common, and the priorities
// by which nodes may differ.
func (c *Class) parts() (same int64, differ []int) {
	differ = c.differ[:0]
	for i := range c.priorities {
		cache := &c.priorities[i]
		switch {
		case cache.Weight == 0:
		case cache.even() || cache.level():
			if len(c.fit) > 0 {
				same += cache.Weight * cache.normalised(c.fit, c.fit[0])
			}
		default:
			differ = append(differ, i)
		}
	}
	c.differ = differ
	return same, differ
}

// level reports whether the raw scores are normalised to one score for all.
func (p *priorityCache) level() bool {
	switch sdk.Normalize(p.Normalize) {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		return p.largest == 0
	case sdk.NormalizeMinMax:
		return p.largest <= p.least
	case sdk.NormalizePlugin:
		return p.zero
	}
	return false
}

// total adds up the total of one node, with what parts returned.
func (c *Class) total(n uint32, same int64, differ []int) int64 {
	if c.fail[n] != fits {
		return none
	}
	for _, i := range differ {
		cache := &c.priorities[i]
		same += cache.Weight * cache.normalised(c.fit, n)
	}
	return same
}

// normalised is the score of a node that fits, by the measures of the totals that were
// made last.
func (p *priorityCache) normalised(fit []uint32, n uint32) int64 {
	raw, most := p.rawOf(n), p.Most()
	switch kind := sdk.Normalize(p.Normalize); kind {
	case sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse:
		return scale(kind, most, raw, p.largest)
	case sdk.NormalizeMinMax:
		return between(most, raw, p.least, p.largest)
	case sdk.NormalizePlugin:
		if len(p.norm) == 0 {
			return 0
		}
		if k, ok := slices.BinarySearch(fit, n); ok && k < len(p.norm) {
			return clamp(p.norm[k], most)
		}
		return 0
	}
	return clamp(raw, most)
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
