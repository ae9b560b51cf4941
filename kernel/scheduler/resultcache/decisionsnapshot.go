package resultcache

import (
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TopNodes is how many of the best nodes a kept decision has scores of.
const TopNodes = 8

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

// failureCodes is what each node failed on, in two bytes a node, kept up to date with
// class.fail. A decision that is kept holds on to codes, which is then copied
// before the next change: a decision costs nothing by it while no node's state
// changes, and a copy of two bytes a node otherwise.
type failureCodes struct {
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

func (t *failureCodes) reset() { *t = failureCodes{} }

// settle takes in what class.settle does.
func (t *failureCodes) settle(c *Class, n uint32, fail int32) {
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

func (t *failureCodes) code(c *Class, key refusalKey) uint16 {
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

// DecisionSnapshot is what a decision was made on. Everything in it is never changed
// again, so that any goroutine may read it.
type DecisionSnapshot struct {
	Policy     contractv1.Policy
	Predicates []contractv1.PredicateInfo
	Priorities []contractv1.PriorityInfo
	Names      []string // by node index; empty: no node
	codes      []uint16
	refusals   []refusal
	Top        []TopNode     // best first, the chosen node among them
	Tied       int           // nodes on the best total
	Partial    bool          // a priority failed and counted 0
	Scores     [][]NodeScore // parallel to top; decisions share what they have in common
	Winner     uint32
	Extenders  []*ExtenderAnswer
}

type TopNode struct {
	Node  uint32
	Total int64
}

// NodeScore is one priority's score of one leader.
type NodeScore struct{ Raw, Score int64 }

// DecisionSnapshot collects what the decision that was just made was made on; winner
// is meaningless when no node fits.
func (c *Class) DecisionSnapshot(s *View, winner uint32, best int64) *DecisionSnapshot {
	return c.DecisionSnapshotAfter(nil, s, winner, best)
}

// DecisionSnapshotAfter is evidence where no score changed since that of another decision, or
// nil, which most leaders have in common.
func (c *Class) DecisionSnapshotAfter(before *DecisionSnapshot, s *View, winner uint32, best int64) *DecisionSnapshot {
	t := &c.trace
	t.lent = true
	e := &DecisionSnapshot{
		Policy: c.policy, Predicates: c.infos.predicates, Priorities: c.infos.priorities, Names: s.Names(),
		codes: t.codes, refusals: t.refusals, Winner: winner, Partial: c.trouble != nil,
	}
	if len(c.fit) == 0 {
		return e
	}
	e.Tied = c.totals.tied
	e.Top = c.totals.topNodes(winner, TopNodes)
	e.Scores = make([][]NodeScore, len(e.Top))
	for k, l := range e.Top {
		if before != nil && k < len(before.Top) && before.Top[k].Node == l.Node {
			e.Scores[k] = before.Scores[k]
		} else {
			e.Scores[k] = c.ScoresOf(l.Node)
		}
	}
	return e
}

// ScoresOf are the scores of a node that fits.
func (c *Class) ScoresOf(node uint32) []NodeScore {
	return c.AppendScores(make([]NodeScore, 0, len(c.priorities)), node)
}

// AppendScores appends the raw and the normalised score of each priority for a
// node that fits. The totals were made just before.
func (c *Class) AppendScores(out []NodeScore, node uint32) []NodeScore {
	for i := range c.priorities {
		out = append(out, NodeScore{c.priorities[i].rawOf(node), c.priorities[i].normalised(c.fit, node)})
	}
	return out
}

// Considered reports whether the predicates were asked about a node.
func (e *DecisionSnapshot) Considered(n uint32) bool { return e.codes[n] != codeAbsent }

// Fits reports whether a node fits for the plugins.
func (e *DecisionSnapshot) Fits(n uint32) bool { return e.codes[n] == codeFits }

// Nodes is how many indexes of nodes there were.
func (e *DecisionSnapshot) Nodes() int { return len(e.codes) }

// Refusal is which predicate refused a node, by index, with its words; none: it was not
// refused. The index is the number of predicates where the words were not kept.
func (e *DecisionSnapshot) Refusal(n uint32) (predicate int, reasons []string, some bool) {
	code := e.codes[n]
	if code < codeRefusals {
		return 0, nil, false
	}
	if i := int(code - codeRefusals); i < len(e.refusals) {
		return int(e.refusals[i].predicate), e.refusals[i].reasons, true
	}
	return len(e.Predicates), nil, true
}

// RefusedByExtender reports whether an extender refused a node that fits for the plugins.
func (e *DecisionSnapshot) RefusedByExtender(n uint32) bool {
	for _, said := range e.Extenders {
		if _, refused := said.Refused[n]; refused {
			return true
		}
	}
	return false
}
