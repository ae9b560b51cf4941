package resultcache

import (
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// invalidate forgets verdicts that may have changed and lists the nodes to look at.
// Raw scores of single nodes go with them.
func (c *Class) invalidate(s *View) {
	c.tick++
	c.list = c.list[:0]
	touched, ok := s.Log.Since(c.position)
	if !c.known || !ok {
		for n := range s.ByIndex {
			c.invalidateNode(snapshot.Touch{Node: uint32(n), Object: true})
		}
		for p := range c.predicates {
			cache := &c.predicates[p]
			cache.reads, cache.stale = s.Version(cache.kinds), false
		}
		return
	}
	c.listOnPods()
	for _, t := range touched {
		if t.Object || c.mark[t.Node] != c.tick {
			c.invalidateNode(t)
		}
	}
	for p := range c.predicates {
		cache := &c.predicates[p]
		reads := cache.version(c, s)
		if cache.skip.before {
			cache.reads = reads
			continue
		}
		same := reads == cache.reads && !cache.stale
		if same && (!cache.looksBeyond() || len(touched) == 0) {
			continue
		}
		cache.reads, cache.stale = reads, false
		if same && cache.changed.known {
			c.invalidateChanged(p)
			continue
		}
		setAll(cache.verdicts, unknown)
		for n := range c.fail {
			c.reconsider(uint32(n), p)
		}
	}
}

// reconsider lists a node of which predicate p may have another verdict. One that
// failed earlier in the order stays failed, unless it fits by itself.
func (c *Class) reconsider(n uint32, p int) {
	if f := c.fail[n]; f == fits || f >= int32(p) || c.reserved[n] {
		c.enlist(n)
	}
}

// invalidateNode lists a node that changed, and forgets the answers that the change may
// have made others.
func (c *Class) invalidateNode(t snapshot.Touch) {
	c.enlist(t.Node)
	if !t.Object {
		for _, p := range c.onPodsPredicates {
			c.predicates[p].verdicts[t.Node] = unknown
		}
		for _, i := range c.onPodsPriorities {
			c.priorities[i].have[t.Node] = false
		}
		return
	}
	c.invalidateVerdicts(t.Node)
	for i := range c.priorities {
		if cache := &c.priorities[i]; !cache.skip.now {
			cache.have[t.Node] = false
		}
	}
}

// listOnPods lists the plugins that have to be asked about a node that got or lost a
// pod since the last update.
func (c *Class) listOnPods() {
	c.onPodsPredicates, c.onPodsPriorities = c.onPodsPredicates[:0], c.onPodsPriorities[:0]
	for p := range c.predicates {
		if cache := &c.predicates[p]; !cache.skip.now && !c.untouchedPredicates.Has(p) && cache.looksAtPods() {
			c.onPodsPredicates = append(c.onPodsPredicates, p)
		}
	}
	for i := range c.priorities {
		if cache := &c.priorities[i]; !cache.skip.now && !c.untouchedPriorities.Has(i) && cache.looksAtPods() {
			c.onPodsPriorities = append(c.onPodsPriorities, i)
		}
	}
}

// invalidateVerdicts forgets what all predicates said about a node.
func (c *Class) invalidateVerdicts(n uint32) {
	for p := range c.predicates {
		if cache := &c.predicates[p]; !cache.skip.now {
			cache.verdicts[n] = unknown
		}
	}
}

// invalidateScores forgets the raw scores of priorities that may score every node
// otherwise now.
func (c *Class) invalidateScores(s *View) {
	changed := !c.known || c.position != s.Log.End()
	for i := range c.priorities {
		cache := &c.priorities[i]
		reads := cache.version(c, s)
		if cache.skip.now {
			cache.void, cache.reads, cache.stale = false, reads, false
			continue
		}
		cache.void = !c.known || reads != cache.reads || cache.stale || cache.looksBeyond() && changed && !cache.changed.known
		if cache.void {
			clear(cache.have)
			cache.moved = true
		} else {
			cache.invalidateChanged()
		}
		cache.reads, cache.stale = reads, false
	}
}

// ReadVersion is the version of all that the predicates read.
func (c *Class) ReadVersion(s *View) (sum uint64) {
	for p := range c.predicates {
		sum += s.Version(c.predicates[p].Reads)
	}
	return sum
}
