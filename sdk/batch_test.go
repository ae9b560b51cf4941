package sdk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin that answers many nodes at once answers as one that is asked node by
// node, whichever of both functions it has.
func TestBatchIsFilterAndScore(t *testing.T) {
	verdict := func(n *Node) Verdict {
		switch n.Index % 4 {
		case 1:
			return Unfit("odd")
		case 2:
			return Never("even", "more")
		}
		return Fits()
	}
	filterNodes := func(b *Batch) {
		for k, n := range b.Nodes {
			if v := verdict(n); !v.Fit() {
				b.Refuse(k, v)
			}
		}
	}
	scoreNodes := func(b *Batch) {
		scores := b.Scores()
		for k, n := range b.Nodes {
			scores[k] = int64(n.Index) * b.State.(int64)
		}
	}
	prepare := func(*Cluster, *Pod) any { return int64(3) }
	filter := func(r *Request) Verdict { return verdict(r.Node) }
	score := func(r *Request) int64 { return int64(r.Node.Index) * r.State.(int64) }
	g, err := GuestOf(
		Predicate{Name: "P", Filter: filter}, Predicate{Name: "PB", FilterNodes: filterNodes}, Predicate{Name: "PBoth", Filter: filter, FilterNodes: filterNodes},
		Priority{Name: "S", Prepare: prepare, Score: score}, Priority{Name: "SB", Prepare: prepare, ScoreNodes: scoreNodes}, Priority{Name: "SBoth", Prepare: prepare, Score: score, ScoreNodes: scoreNodes},
		Predicate{Name: "None", FilterNodes: func(b *Batch) { b.RefuseAll(Unfit("no")) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	delta := &contractv1.Delta{Generation: 1, Operations: []*contractv1.Operation{class(1, &contractv1.Pod{})}}
	for i := range uint32(12) {
		delta.Operations = append(delta.Operations, node(i, &contractv1.Node{Name: fmt.Sprint("n", i)}))
	}
	if err := g.Apply(encode(t, delta)); err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{1, fewNodes, fewNodes + 1, 12} {
		nodes, want, wantScores := make([]uint32, count), make([]string, count), make([]int64, count)
		for k := range nodes {
			nodes[k] = uint32(11 - k)
			v := verdict(g.cluster.Node(nodes[k]))
			want[k], wantScores[k] = fmt.Sprint(v.Reasons, v.Unresolvable), int64(nodes[k])*3
		}
		for i := range 3 {
			out, got := make([]uint32, count), make([]string, count)
			out[0] = 99 // whatever was there
			if err := g.Filter(i, 1, nodes, out); err != nil {
				t.Fatal(err)
			}
			for k, id := range out {
				got[k] = fmt.Sprint(g.Reasons(i, id), g.Unresolvable(i, id))
			}
			if !slices.Equal(got, want) {
				t.Errorf("predicate %d, %d nodes: %q, want %q", i, count, got, want)
			}
			scores := make([]int64, count)
			scores[0] = 99
			if err := g.Score(3+i, 1, nodes, scores); err != nil || !slices.Equal(scores, wantScores) {
				t.Errorf("priority %d, %d nodes: %v, %v; want %v", i, count, scores, err, wantScores)
			}
		}
		out := make([]uint32, count)
		if err := g.Filter(6, 1, nodes, out); err != nil || slices.Contains(out, 0) {
			t.Errorf("%d nodes, none fits: %v, %v", count, out, err)
		}
	}
	if err := g.Filter(1, 1, []uint32{0, 1, 2, 3, 4, 99}, make([]uint32, 6)); err == nil {
		t.Error("a node that is not there was asked about")
	}
}

// A column says what the labels say, while nodes come, change and go.
func TestColumnIsTheLabel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	g := newGuest(nil)
	c := &g.cluster
	var old *Node
	for round := range 3000 {
		delta := &contractv1.Delta{Generation: uint64(round + 1), Reset_: round == 1500}
		index := uint32(random.IntN(6))
		if random.IntN(4) == 0 {
			delta.Operations = append(delta.Operations, &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: index}})
		} else {
			n := &contractv1.Node{Name: "n"}
			if random.IntN(3) > 0 {
				// Values that are there once make a column grow.
				n.Labels = map[string]string{"zone": fmt.Sprint(random.IntN(3)), "host": fmt.Sprint("h", round)}
			}
			delta.Operations = append(delta.Operations, node(index, n))
		}
		before := c.Node(index)
		if err := g.Apply(encode(t, delta)); err != nil {
			t.Fatal(err)
		}
		if before != nil {
			old = before
		}
		for _, key := range []string{"zone", "host"} {
			l := c.Column(key)
			check := func(n *Node) bool {
				value, has := n.Labels[key]
				if number := l.Of(n); (number != 0) != has || has && (l.Value(number) != value || l.Number(value) != number || int(number) >= l.Len()) {
					t.Fatalf("round %d: %s of %v is number %d", round, key, n.Labels, number)
				}
				return true
			}
			c.Nodes(check)
			if old != nil {
				check(old)
			}
		}
	}
	// A column with too many values is given up, with the states that know it.
	g.plugins = append(g.plugins, servedState{states: map[uint32]preparedState{1: {}}})
	column := c.Column("host")
	for round := range columnValues + 4*len(c.nodes) + 1 {
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: uint64(5000 + round), Operations: []*contractv1.Operation{
			node(0, &contractv1.Node{Labels: map[string]string{"host": fmt.Sprint("new", round)}}),
		}})); err != nil {
			t.Fatal(err)
		}
	}
	if c.Column("host") == column || len(g.plugins[0].states) != 0 || c.Column("host").Len() > columnValues {
		t.Errorf("a column of %d values is kept", column.Len())
	}
}

// Labels that pods name and no node has take no room a node, and too many columns
// are given up, with the states that know them.
func TestColumnsAreBounded(t *testing.T) {
	g := newGuest(nil)
	c := &g.cluster
	apply := func(generation uint64, n *contractv1.Node) {
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{node(99, n)}})); err != nil {
			t.Fatal(err)
		}
	}
	apply(1, &contractv1.Node{Name: "n"})
	absent := c.Column("absent")
	if len(absent.ids) != 0 || absent.Of(c.Node(99)) != 0 {
		t.Errorf("a label that no node has: %d numbers, %d", len(absent.ids), absent.Of(c.Node(99)))
	}
	apply(2, &contractv1.Node{Name: "n", Labels: map[string]string{"absent": "no more"}})
	if number := absent.Of(c.Node(99)); number == 0 || absent.Value(number) != "no more" {
		t.Errorf("a label that came: number %d", number)
	}
	g.plugins = append(g.plugins, servedState{states: map[uint32]preparedState{1: {}}})
	for i := range maxColumns {
		c.Column(fmt.Sprint("of a pod ", i))
	}
	apply(3, &contractv1.Node{Name: "n"})
	if len(c.columns) != 0 || len(g.plugins[0].states) != 0 {
		t.Errorf("%d columns are kept, %d states", len(c.columns), len(g.plugins[0].states))
	}
}
