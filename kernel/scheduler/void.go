package scheduler

import "pintle.dev/pintle/sdk"

func (s *snapshot) version(kinds []string) uint64 {
	var sum uint64
	for _, kind := range kinds {
		sum += s.kinds[kind]
	}
	return sum
}

// version is that of kinds of objects; seen was that at the last update.
func (c *class) version(s *snapshot, kinds []string, seen uint64) uint64 {
	if c.known && c.objects == s.edits {
		return seen
	}
	return s.version(kinds)
}

// collect voids what may have changed and lists the nodes to look at.
func (c *class) collect(s *snapshot) {
	c.tick++
	c.list = c.list[:0]
	touched, ok := s.log.since(c.position)
	if !c.known || !ok {
		for n := range s.byIndex {
			c.voidNode(touch{node: uint32(n), object: true})
		}
		for p := range c.predicates {
			c.readsP[p], c.stale[p] = s.version(c.predicates[p].Reads), false
		}
		return
	}
	c.listOnPods()
	for _, t := range touched {
		if t.object || c.mark[t.node] != c.tick {
			c.voidNode(t)
		}
	}
	for p := range c.predicates {
		info := &c.predicates[p]
		reads := c.version(s, info.Reads, c.readsP[p])
		if c.idleP[p].stays {
			c.readsP[p] = reads
			continue
		}
		if reads == c.readsP[p] && !c.stale[p] && (info.Scope != string(sdk.ScopeCluster) || len(touched) == 0) {
			continue
		}
		same := reads == c.readsP[p] && !c.stale[p]
		c.readsP[p], c.stale[p] = reads, false
		if same && c.movesP[p].known {
			c.voidMoved(p)
			continue
		}
		setAll(c.verdicts[p], unknown)
		for n, f := range c.fail {
			// A node that failed earlier in the order stays failed, but for one
			// that fits by itself.
			if (f == fits || f >= int32(p) || c.reserved[uint32(n)]) && c.mark[n] != c.tick {
				c.mark[n] = c.tick
				c.list = append(c.list, uint32(n))
			}
		}
	}
}

// voidNode lists a node that changed, and voids what that may have made another answer.
func (c *class) voidNode(t touch) {
	if c.mark[t.node] != c.tick {
		c.mark[t.node] = c.tick
		c.list = append(c.list, t.node)
	}
	if !t.object {
		for _, p := range c.onPodsP {
			c.verdicts[p][t.node] = unknown
		}
		for _, i := range c.onPodsS {
			c.have[i][t.node] = false
		}
		return
	}
	c.voidVerdicts(t.node)
	for i := range c.have {
		if !c.idleS[i].now {
			c.have[i][t.node] = false
		}
	}
}

// listOnPods lists the plugins that have to be asked about a node that got or lost a
// pod since the last update.
func (c *class) listOnPods() {
	c.onPodsP, c.onPodsS = c.onPodsP[:0], c.onPodsS[:0]
	for p := range c.predicates {
		if !c.idleP[p].now && !c.calmP.has(p) && c.predicates[p].Scope != string(sdk.ScopeNodeObject) {
			c.onPodsP = append(c.onPodsP, p)
		}
	}
	for i := range c.priorities {
		if !c.idleS[i].now && !c.calmS.has(i) && c.priorities[i].Scope != string(sdk.ScopeNodeObject) {
			c.onPodsS = append(c.onPodsS, i)
		}
	}
}

func (c *class) voidVerdicts(n uint32) {
	for p := range c.verdicts {
		if !c.idleP[p].now {
			c.verdicts[p][n] = unknown
		}
	}
}

// voidScores voids the raw scores of priorities for which every node may have
// another now.
func (c *class) voidScores(s *snapshot) {
	changed := !c.known || c.position != s.log.end()
	for i := range c.priorities {
		info := &c.priorities[i]
		reads := c.version(s, info.Reads, c.readsS[i])
		if c.idleS[i].now {
			c.voidS[i], c.readsS[i], c.staleS[i] = false, reads, false
			continue
		}
		c.voidS[i] = !c.known || reads != c.readsS[i] || c.staleS[i] || info.Scope == string(sdk.ScopeCluster) && changed && !c.movesS[i].known
		if c.voidS[i] {
			clear(c.have[i])
			c.moved[i] = true
		} else {
			c.voidMovedScores(i)
		}
		c.readsS[i], c.staleS[i] = reads, false
	}
}
