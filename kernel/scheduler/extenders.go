package scheduler

// extenderEvidence is what an extender said about the nodes of one decision. It is
// not changed any more once the decision is kept.
type extenderEvidence struct {
	name string
	// filters: it was asked which nodes fit, and refused these, for its reasons.
	filters bool
	refused map[uint32][]string
	// scores are what it added to the totals; nil: it was not asked, or failed.
	scores map[uint32]int64
	// fault is why it did not answer, which ends the pod's chances unless it is ignorable.
	fault     string
	ignorable bool
}

// renormalize forgets totals, and scores that were normalised over other nodes.
func (c *class) renormalize() {
	for i := range c.priorities {
		c.priorities[i].moved, c.priorities[i].unmeasured = true, true
	}
	c.flipped, c.totalled = true, false
}

// reasons counts what the predicates said against nodes, with what extenders did.
func (c *class) reasons(said []*extenderEvidence) map[string]int {
	reasons := map[string]int{}
	for n, f := range c.fail {
		if f < 0 {
			continue
		}
		for _, reason := range c.policy.Reasons(int(f), c.predicates[f].verdicts[n]) {
			reasons[reason]++
		}
	}
	for _, e := range said {
		for _, refused := range e.refused {
			for _, reason := range refused {
				reasons[reason]++
			}
		}
	}
	return reasons
}

// restrict has the class see those of its nodes alone that extenders left, until restore
// is called.
func (c *class) restrict(left []uint32) (restore func()) {
	fit := c.fit
	c.fit = left
	c.renormalize()
	return func() {
		c.fit = fit
		c.renormalize()
	}
}

// evidenceOfNone is evidence of a decision for no node, though some fit for the plugins.
func (c *class) evidenceOfNone(s *view) *evidence {
	fit := c.fit
	c.fit = nil // the decision was made on no node's scores
	defer func() { c.fit = fit }()
	return c.evidence(s, 0, 0)
}

// most is what the plugins of a class score up to, or a number if that is more.
func (c *class) most(atLeast int64) int64 {
	for i := range c.priorities {
		atLeast = max(atLeast, c.priorities[i].Most())
	}
	return atLeast
}

// addTotals adds to the totals of the nodes that fit, for one decision. Totals are
// complete again with sumUp.
func (c *class) addTotal(n uint32, score int64) { c.totals.totals[n] += score }

// sumUp works out the best total after addTotal.
func (c *class) sumUp() {
	c.totals.summariseAll()
	c.totals.findMax()
}
