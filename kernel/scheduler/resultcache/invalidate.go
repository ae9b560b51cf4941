package resultcache

import (
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// invalidate forgets verdicts that may have changed and lists the nodes to look at.
// Raw scores of single nodes go with them.
func (u *update) invalidate() {
	u.tick++
	u.list = u.list[:0]
	touched, ok := u.view.Log.Since(u.position)
	if !u.known || !ok {
		for n := range u.view.ByIndex {
			u.invalidateNode(snapshot.Touch{Node: uint32(n), Object: true})
		}
		for p := range u.predicates {
			cache := &u.predicates[p]
			cache.reads, cache.stale = u.view.Version(cache.kinds), false
		}
		return
	}
	u.listOnPods()
	for _, t := range touched {
		if t.Object || u.mark[t.Node] != u.tick {
			u.invalidateNode(t)
		}
	}
	for p := range u.predicates {
		cache := &u.predicates[p]
		reads := cache.version(u)
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
			u.invalidateChanged(p)
			continue
		}
		setAll(cache.verdicts, unknown)
		for n := range u.fail {
			u.reconsider(uint32(n), p)
		}
	}
}

// reconsider lists a node of which predicate p may have another verdict. One that
// failed earlier in the order stays failed, unless it fits by itself.
func (u *update) reconsider(n uint32, p int) {
	if f := u.fail[n]; f == fits || f >= int32(p) || u.reserved[n] {
		u.enlist(n)
	}
}

// invalidateNode lists a node that changed, and forgets the answers that the change may
// have made others.
func (u *update) invalidateNode(t snapshot.Touch) {
	u.enlist(t.Node)
	if !t.Object {
		for _, p := range u.onPodsPredicates {
			u.predicates[p].verdicts[t.Node] = unknown
		}
		for _, i := range u.onPodsPriorities {
			u.priorities[i].have[t.Node] = false
		}
		return
	}
	u.invalidateVerdicts(t.Node)
	for i := range u.priorities {
		if cache := &u.priorities[i]; !cache.skip.now {
			cache.have[t.Node] = false
		}
	}
}

// listOnPods lists the plugins that have to be asked about a node that got or lost a
// pod since the last update.
func (u *update) listOnPods() {
	u.onPodsPredicates, u.onPodsPriorities = u.onPodsPredicates[:0], u.onPodsPriorities[:0]
	for p := range u.predicates {
		if cache := &u.predicates[p]; !cache.skip.now && !u.untouchedPredicates.Has(p) && cache.looksAtPods() {
			u.onPodsPredicates = append(u.onPodsPredicates, p)
		}
	}
	for i := range u.priorities {
		if cache := &u.priorities[i]; !cache.skip.now && !u.untouchedPriorities.Has(i) && cache.looksAtPods() {
			u.onPodsPriorities = append(u.onPodsPriorities, i)
		}
	}
}

// invalidateVerdicts forgets what all predicates said about a node.
func (u *update) invalidateVerdicts(n uint32) {
	for p := range u.predicates {
		if cache := &u.predicates[p]; !cache.skip.now {
			cache.verdicts[n] = unknown
		}
	}
}

// invalidateScores forgets the raw scores of priorities that may score every node
// otherwise now.
func (u *update) invalidateScores() {
	changed := !u.known || u.position != u.view.Log.End()
	for i := range u.priorities {
		cache := &u.priorities[i]
		reads := cache.version(u)
		if cache.skip.now {
			cache.void, cache.reads, cache.stale = false, reads, false
			continue
		}
		cache.void = !u.known || reads != cache.reads || cache.stale || cache.looksBeyond() && changed && !cache.changed.known
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
