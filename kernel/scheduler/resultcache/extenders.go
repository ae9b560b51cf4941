package resultcache

// ExtenderAnswer is what an extender said about the nodes of one decision. It is
// not changed any more once the decision is kept.
type ExtenderAnswer struct {
	Name string
	// filters: it was asked which nodes fit, and refused these, for its reasons.
	Filters bool
	Refused map[uint32][]string
	// Scores are what it added to the totals; nil: it was not asked, or failed.
	Scores map[uint32]int64
	// Fault is why it did not answer, which ends the pod's chances unless it is ignorable.
	Fault     string
	Ignorable bool
}

// renormalize forgets totals, and scores that were normalised over other nodes.
func (c *Class) renormalize() {
	for i := range c.priorities {
		c.priorities[i].moved, c.priorities[i].unmeasured = true, true
	}
	c.flipped, c.totalled = true, false
}

// Restrict has the class see those of its nodes alone that extenders left, until restore
// is called.
func (c *Class) Restrict(left []uint32) (restore func()) {
	fit := c.fit
	c.fit = left
	c.renormalize()
	return func() {
		c.fit = fit
		c.renormalize()
	}
}

// DecisionSnapshotOfNone is evidence of a decision for no node, though some fit for the plugins.
func (c *Class) DecisionSnapshotOfNone(s *View) *DecisionSnapshot {
	fit := c.fit
	c.fit = nil // the decision was made on no node's scores
	defer func() { c.fit = fit }()
	return c.DecisionSnapshot(s, 0, 0)
}

// MostScore is what the plugins of a class score up to, or a number if that is more.
func (c *Class) MostScore(atLeast int64) int64 {
	for i := range c.priorities {
		atLeast = max(atLeast, c.priorities[i].Most())
	}
	return atLeast
}
