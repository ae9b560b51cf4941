package scheduler

import (
	"context"
	"slices"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// moves is what a plugin of scope cluster said of its answers for a class.
type moves struct {
	since uint64 // the moment up to which the class has them
	known bool   // in this decision: no others changed than those of nodes
	nodes []uint32
}

// learn asks the plugins of scope cluster which of their answers for the class
// changed. Of those that do not know, every answer is void.
func (c *class) learn(ctx context.Context, s *snapshot) {
	for p := range c.movesP {
		c.movesP[p].known, c.movesP[p].nodes = c.calmP.has(p), c.movesP[p].nodes[:0]
	}
	for i := range c.movesS {
		c.movesS[i].known, c.movesS[i].nodes = c.calmS.has(i), c.movesS[i].nodes[:0]
	}
	mover, ok := c.policy.(contractv1.Mover)
	if !ok || !c.known || c.position == s.log.end() {
		return
	}
	if _, ok := s.log.since(c.position); !ok {
		return
	}
	for p := range c.predicates {
		if info := &c.predicates[p]; info.Scope == string(sdk.ScopeCluster) && !c.stale[p] && !c.idleP[p].now && !c.calmP.has(p) {
			c.movesP[p].take(mover.MovedVerdicts(ctx, p, c.id, c.movesP[p].since))
		}
	}
	for i := range c.priorities {
		if info := &c.priorities[i]; info.Scope == string(sdk.ScopeCluster) && !c.staleS[i] && !c.idleS[i].now && !c.calmS.has(i) {
			c.movesS[i].take(mover.MovedScores(ctx, i, c.id, c.movesS[i].since))
		}
	}
}

func (m *moves) take(now uint64, nodes []uint32, known bool) {
	m.since, m.known = now, known
	m.nodes = append(m.nodes[:0], nodes...)
}

// voidMoved voids the verdicts of predicate p that changed.
func (c *class) voidMoved(p int) {
	for _, n := range c.movesP[p].nodes {
		if int(n) >= len(c.verdicts[p]) {
			continue
		}
		c.verdicts[p][n] = unknown
		if f := c.fail[n]; (f == fits || f >= int32(p) || c.reserved[n]) && c.mark[n] != c.tick {
			c.mark[n] = c.tick
			c.list = append(c.list, n)
		}
	}
}

// voidMovedScores voids the raw scores of priority i that changed.
func (c *class) voidMovedScores(i int) {
	if !c.movesS[i].known {
		return
	}
	for _, n := range c.movesS[i].nodes {
		if int(n) < len(c.have[i]) {
			c.have[i][n] = false
			c.moved[i] = true
		}
	}
}

// askMoved adds the nodes that fit and whose raw score by priority i changed to
// those that it is asked about.
func (c *class) askMoved(i int) {
	if !c.movesS[i].known || len(c.movesS[i].nodes) == 0 {
		return
	}
	for _, n := range c.movesS[i].nodes {
		if int(n) < len(c.fail) && c.fail[n] == fits && !c.have[i][n] {
			c.asks[i] = append(c.asks[i], n)
		}
	}
	slices.Sort(c.asks[i])
	c.asks[i] = slices.Compact(c.asks[i])
}
