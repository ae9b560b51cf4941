package scheduler

import (
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// leaders is how many of the best nodes a kept decision has scores of.
const leaders = 8

// Codes of a node in a trace; from codeRefusals on they count its refusals.
const (
	codeFits uint16 = iota
	codeAbsent
	codeRefusals
	codeMax = 1<<12 + codeRefusals // a plugin may not fill the memory with words
)

// refusal is one verdict of one predicate with its words.
type refusal struct {
	predicate int32
	verdict   uint32
	reasons   []string
}

// trace is what each node failed on, in two bytes a node, kept up to date with
// class.fail. A decision that is kept holds on to codes, which is then copied
// before the next change: a decision costs nothing by it while no node's state
// changes, and a copy of two bytes a node otherwise.
type trace struct {
	codes    []uint16
	lent     bool
	index    map[refusalKey]uint16
	refusals []refusal
	last     refusalKey
	lastCode uint16
}

type refusalKey struct {
	predicate int32
	verdict   uint32
}

func (t *trace) reset() { *t = trace{} }

// settle takes in what class.settle does.
func (t *trace) settle(c *class, n uint32, fail int32) {
	code := codeFits
	switch {
	case fail == absent:
		code = codeAbsent
	case fail >= 0:
		code = t.code(c, refusalKey{fail, c.predicates[fail].verdicts[n]})
	}
	if int(n) < len(t.codes) && t.codes[n] == code {
		return
	}
	if t.lent {
		t.codes, t.lent = slices.Clone(t.codes), false
	}
	t.codes = grow(t.codes, int(n)+1, codeAbsent)
	t.codes[n] = code
}

func (t *trace) code(c *class, key refusalKey) uint16 {
	if key == t.last && t.lastCode != 0 {
		return t.lastCode
	}
	code, ok := t.index[key]
	if !ok {
		if code = codeRefusals + uint16(len(t.refusals)); code >= codeMax {
			return codeMax
		}
		if t.index == nil {
			t.index = map[refusalKey]uint16{}
		}
		t.index[key] = code
		t.refusals = append(t.refusals, refusal{key.predicate, key.verdict, c.policy.Reasons(int(key.predicate), key.verdict)})
	}
	t.last, t.lastCode = key, code
	return code
}

// evidence is what a decision was made on. Everything in it is never changed
// again, so that any goroutine may read it.
type evidence struct {
	policy     contractv1.Policy
	predicates []contractv1.PredicateInfo
	priorities []contractv1.PriorityInfo
	names      []string // by node index; empty: no node
	codes      []uint16
	refusals   []refusal
	top        []leader        // best first, the chosen node among them
	tied       int             // nodes on the best total
	partial    bool            // a priority failed and counted 0
	scores     [][]leaderScore // parallel to top; decisions share what they have in common
	winner     uint32
	extenders  []*extenderEvidence
}

type leader struct {
	node  uint32
	total int64
}

// leaderScore is one priority's score of one leader.
type leaderScore struct{ raw, score int64 }

// evidence collects what the decision that was just made was made on; winner
// is meaningless when no node fits.
func (c *class) evidence(s *view, winner uint32, best int64) *evidence {
	return c.evidenceAfter(nil, s, winner, best)
}

// evidenceAfter is evidence where no score changed since that of another decision, or
// nil, which most leaders have in common.
func (c *class) evidenceAfter(before *evidence, s *view, winner uint32, best int64) *evidence {
	t := &c.trace
	t.lent = true
	e := &evidence{
		policy: c.policy, predicates: c.infos.predicates, priorities: c.infos.priorities, names: s.Names(),
		codes: t.codes, refusals: t.refusals, winner: winner, partial: c.trouble != nil,
	}
	if len(c.fit) == 0 {
		return e
	}
	e.tied = c.totals.tied
	e.top = c.totals.leaders(winner, leaders)
	e.scores = make([][]leaderScore, len(e.top))
	for k, l := range e.top {
		if before != nil && k < len(before.top) && before.top[k].node == l.node {
			e.scores[k] = before.scores[k]
		} else {
			e.scores[k] = c.scoresOf(l.node)
		}
	}
	return e
}

// scoresOf are the scores of a node that fits.
func (c *class) scoresOf(node uint32) []leaderScore {
	return c.appendScores(make([]leaderScore, 0, len(c.priorities)), node)
}

// appendScores appends the raw and the normalised score of each priority for a
// node that fits. The totals were made just before.
func (c *class) appendScores(out []leaderScore, node uint32) []leaderScore {
	for i := range c.priorities {
		out = append(out, leaderScore{c.priorities[i].rawOf(node), c.priorities[i].normalised(c.fit, node)})
	}
	return out
}
