package explain

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"pintle.dev/pintle/kernel/scheduler/resultcache"
)

// Diff says how a candidate differs from the version in force.
type Diff struct {
	// Compared decisions; of those, Disagreed in which some answer about some
	// node differed, and Elsewhere in which the pod would be on another node,
	// or on none, or on one at all.
	Compared  int64 `json:"compared"`
	Disagreed int64 `json:"disagreed"`
	Elsewhere int64 `json:"elsewhere"`
	// Decisions that were not compared: Dropped because the queue was full,
	// Skipped while the candidate was being fed, Failed because a plugin did not answer,
	// Unreproduced because the mirrored present version decided otherwise.
	Dropped      int64      `json:"dropped"`
	Skipped      int64      `json:"skipped"`
	Failed       int64      `json:"failed"`
	Unreproduced int64      `json:"unreproduced"`
	LastFailure  string     `json:"lastFailure,omitempty"`
	Last         *time.Time `json:"last,omitempty"`
	// Plugins that differ, by decisions.
	Plugins []PluginDifference `json:"plugins"`
	// Disagreements that are kept, the oldest first.
	Disagreements []Disagreement `json:"disagreements"`
}

// PluginDifference counts how often a plugin answered otherwise.
type PluginDifference struct {
	Plugin    string `json:"plugin"`
	Decisions int64  `json:"decisions"`
	Nodes     int64  `json:"nodes"`
}

// Disagreement is one decision in which the two sides differ.
type Disagreement struct {
	Sequence  uint64    `json:"sequence"`
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Pod       string    `json:"pod"`
	Profile   string    `json:"profile"`
	// Node is where the pod was placed; empty: nowhere.
	Node string `json:"node"`
	// Candidate is where it would have been placed; OneOf counts the nodes that
	// the choice would have been among. Elsewhere: that is not Node.
	Candidate string `json:"candidate"`
	OneOf     int    `json:"oneOf,omitempty"`
	Elsewhere bool   `json:"elsewhere"`
	// Nodes counts those about which an answer differs; the first are in Answers.
	Nodes   int                `json:"nodes"`
	Answers []AnswerDifference `json:"answers"`

	byPlugin map[string]int64
}

// AnswerDifference is what the two sides said about one node.
type AnswerDifference struct {
	Node   string `json:"node"`
	Plugin string `json:"plugin"`
	// Present and Candidate are "fits", reasons, or a score from 0 to 10.
	Present   string `json:"present"`
	Candidate string `json:"candidate"`
	// Totals of a node that fits on both sides.
	PresentTotal   int64 `json:"presentTotal,omitempty"`
	CandidateTotal int64 `json:"candidateTotal,omitempty"`
}

// answersKept is how many nodes a disagreement tells of.
const answersKept = 8

// difference compares what both sides made of one decision; nil: they agree.
func difference(d *ComparedDecision, was, would *resultcache.Class, names []string) *Disagreement {
	out := &Disagreement{Time: d.At, Namespace: d.Namespace, Pod: d.Name, Profile: d.Profile, Node: d.Node, byPlugin: map[string]int64{}}
	if out.Elsewhere = !leadsTo(would, d.Node, names); out.Elsewhere && len(would.Feasible()) > 0 {
		out.Candidate, out.OneOf = names[would.Totals().Nth(0)], would.Totals().Tied()
	} else if !out.Elsewhere {
		out.Candidate = d.Node
	}
	for n := range uint32(min(was.Verdicts().Nodes(), would.Verdicts().Nodes())) {
		if !was.Verdicts().Considered(n) || !would.Verdicts().Considered(n) {
			continue
		}
		a, b := was.Verdicts().RefusedBy(n), would.Verdicts().RefusedBy(n)
		if a == b {
			continue // both fit, or refuse by the same predicate
		}
		answer := AnswerDifference{Node: names[n], Plugin: b, Present: verdictText(was, n), Candidate: verdictText(would, n)}
		if b == "" {
			answer.Plugin = a
		}
		out.take(answer)
	}
	out.scores(was, would, names)
	if out.Nodes == 0 && !out.Elsewhere {
		return nil
	}
	return out
}

func (d *Disagreement) take(a AnswerDifference) {
	d.Nodes++
	d.byPlugin[a.Plugin]++
	if len(d.Answers) < answersKept {
		d.Answers = append(d.Answers, a)
	}
}

// scores compares the priorities that both sides have, on nodes that fit on both.
func (d *Disagreement) scores(was, would *resultcache.Class, names []string) {
	if len(was.Feasible()) == 0 || len(would.Feasible()) == 0 {
		return
	}
	priorities := was.PriorityInfos()
	at := make(map[string]int, len(would.PriorityInfos()))
	for i := range would.PriorityInfos() {
		at[would.PriorityInfos()[i].Name] = i
	}
	var rawA, rawB []int64
	var a, b []resultcache.NodeScore
	for _, n := range was.Feasible() {
		_, ok := slices.BinarySearch(would.Feasible(), n)
		if !ok {
			continue
		}
		rawA, rawB = was.AppendRaw(rawA[:0], n), would.AppendRaw(rawB[:0], n)
		if slices.Equal(rawA, rawB) && was.Totals().Of(n) == would.Totals().Of(n) && len(priorities) == len(would.PriorityInfos()) {
			continue
		}
		a, b = was.AppendScores(a[:0], n), would.AppendScores(b[:0], n)
		for i := range priorities {
			other, ok := at[priorities[i].Name]
			if !ok || a[i].Score == b[other].Score {
				continue
			}
			d.take(AnswerDifference{
				Node: names[n], Plugin: priorities[i].Name, Present: scoreText(a[i].Score), Candidate: scoreText(b[other].Score),
				PresentTotal: was.Totals().Of(n), CandidateTotal: would.Totals().Of(n),
			})
		}
	}
}

func scoreText(score int64) string { return strconv.FormatInt(score, 10) }

func verdictText(c *resultcache.Class, n uint32) string {
	text := c.Verdicts().RefusedBy(n)
	if text == "" {
		return AnswerFits
	}
	for i, reason := range c.Verdicts().Reasons(n) {
		if i == 0 {
			text += ": "
		} else {
			text += ", "
		}
		text += reason
	}
	return text
}

// book keeps what was compared. Safe for concurrent use.
type book struct {
	mu       sync.Mutex
	diff     Diff
	plugins  map[string]*PluginDifference
	sequence uint64
	ring     []Disagreement
	keep     int
}

func newBook(keep int) book { return book{plugins: map[string]*PluginDifference{}, keep: keep} }

func (b *book) skip()         { b.mu.Lock(); b.diff.Skipped++; b.mu.Unlock() }
func (b *book) unreproduced() { b.mu.Lock(); b.diff.Unreproduced++; b.mu.Unlock() }

func (b *book) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.diff.Failed++
	b.diff.LastFailure = err.Error()
}

// add counts a decision; d is nil where both sides agree.
func (b *book) add(d *Disagreement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.diff.Compared++
	if d == nil {
		return
	}
	b.diff.Disagreed++
	if d.Elsewhere {
		b.diff.Elsewhere++
	}
	at := d.Time
	b.diff.Last = &at
	for name, nodes := range d.byPlugin {
		p := b.plugins[name]
		if p == nil {
			p = &PluginDifference{Plugin: name}
			b.plugins[name] = p
		}
		p.Decisions++
		p.Nodes += nodes
	}
	b.sequence++
	d.Sequence = b.sequence
	if len(b.ring) >= b.keep {
		b.ring = slices.Delete(b.ring, 0, 1)
	}
	b.ring = append(b.ring, *d)
}

// Report returns the counts, and the kept disagreements after a sequence number.
func (c *Comparison) Report(after uint64) Diff {
	b := &c.book
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.diff
	out.Dropped = c.dropped.Load()
	out.Plugins, out.Disagreements = []PluginDifference{}, []Disagreement{}
	for _, p := range b.plugins {
		out.Plugins = append(out.Plugins, *p)
	}
	slices.SortFunc(out.Plugins, func(x, y PluginDifference) int {
		return cmp.Or(cmp.Compare(y.Decisions, x.Decisions), cmp.Compare(x.Plugin, y.Plugin))
	})
	for _, d := range b.ring {
		if d.Sequence > after {
			out.Disagreements = append(out.Disagreements, d)
		}
	}
	return out
}
