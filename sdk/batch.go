package sdk

import (
	"fmt"
	"unsafe"
)

// Batch is one question about several nodes. A plugin that answers it in a loop of
// its own (FilterNodes, ScoreNodes) spares a call a node, which in a WASM module is
// most of what a simple rule costs, and may answer for all nodes at a glance: a
// pod without a selector matches them all. It must answer as Filter or Score does.
type Batch struct {
	Pod     *Pod
	Cluster *Cluster
	// State is what the plugin's Prepare returned for the pod's class, or nil.
	State any
	Nodes []*Node

	clock    *clock
	plugin   *servedState
	verdicts []uint32
	one      *Verdict // where Filter is asked
	scores   []int64
}

// Refuse says that the pod does not fit Nodes[k]. It fits those that are not
// refused.
func (b *Batch) Refuse(k int, v Verdict) {
	if b.one != nil {
		*b.one = v
		return
	}
	if len(v.Reasons) == 0 {
		b.verdicts[k] = 0
		return
	}
	b.verdicts[k] = b.plugin.reasonID(v)
}

// RefuseAll says that the pod fits none of the nodes, all for the same reason.
func (b *Batch) RefuseAll(v Verdict) {
	for k := range b.Nodes {
		b.Refuse(k, v)
	}
}

// Each asks filter about each node: for a FilterNodes that knows when there is
// nothing to ask.
func (b *Batch) Each(filter func(*Request) Verdict) {
	r := Request{Pod: b.Pod, Cluster: b.Cluster, State: b.State, clock: b.clock}
	for k, n := range b.Nodes {
		r.about(n)
		if v := filter(&r); len(v.Reasons) > 0 {
			b.Refuse(k, v)
		}
	}
}

// ScoreEach asks score about each node: for a ScoreNodes that knows a faster way
// for some configurations.
func (b *Batch) ScoreEach(score func(*Request) int64) {
	r := Request{Pod: b.Pod, Cluster: b.Cluster, State: b.State, clock: b.clock}
	for k, n := range b.Nodes {
		r.about(n)
		b.scores[k] = score(&r)
	}
}

// about makes the request one about n, which the replica holds: so the collector
// need not hear of it, which is dear (everyNode).
func (r *Request) about(n *Node) {
	*(*uintptr)(unsafe.Pointer(&r.Node)) = uintptr(unsafe.Pointer(n))
}

// Scores are the raw scores, parallel to Nodes, to be written: 0 so far.
func (b *Batch) Scores() []int64 { return b.scores }

// fewNodes are asked about one by one, if the plugin can be.
const fewNodes = 4

// filterOf makes Filter of FilterNodes.
func filterOf(filterNodes func(*Batch)) func(*Request) Verdict {
	return func(r *Request) Verdict {
		var v Verdict
		filterNodes(&Batch{Pod: r.Pod, Cluster: r.Cluster, State: r.State, Nodes: []*Node{r.Node}, clock: r.clock, one: &v})
		return v
	}
}

// scoreOf makes Score of ScoreNodes.
func scoreOf(scoreNodes func(*Batch)) func(*Request) int64 {
	return func(r *Request) int64 {
		b := &Batch{Pod: r.Pod, Cluster: r.Cluster, State: r.State, Nodes: []*Node{r.Node}, clock: r.clock, scores: make([]int64, 1)}
		scoreNodes(b)
		return b.scores[0]
	}
}

// batch sets the guest's batch up for nodes; ask was called.
func (g *Guest) batch(p *servedState, nodes []uint32) (*Batch, error) {
	if err := g.find(nodes); err != nil {
		return nil, err
	}
	g.batched = Batch{Pod: g.request.Pod, Cluster: &g.cluster, State: g.request.State, Nodes: g.nodes, clock: &g.clock, plugin: p}
	return &g.batched, nil
}

// find looks nodes up, into g.nodes.
func (g *Guest) find(nodes []uint32) error {
	all := g.cluster.nodes
	if g.everyNode(nodes) {
		g.nodes = all[:len(nodes):len(nodes)]
		return nil
	}
	g.found = sized(g.found, len(nodes))
	for k, index := range nodes {
		if int(index) >= len(all) || all[index] == nil {
			return fmt.Errorf("%w: index %d", ErrNode, index)
		}
		g.found[k] = all[index]
	}
	g.nodes = g.found
	return nil
}

// there reports an index at which there is no node.
func (g *Guest) there(nodes []uint32) error {
	all := g.cluster.nodes
	for _, index := range nodes {
		if int(index) >= len(all) || all[index] == nil {
			return fmt.Errorf("%w: index %d", ErrNode, index)
		}
	}
	return nil
}

// everyNode reports whether nodes are the first ones in order, which is how a
// pass over all of them comes: the table itself is the list then. In a WASM module
// a collection of garbage goes on for long, as it goes on during calls alone, and
// until it ends each pointer that is written costs 50 ns.
func (g *Guest) everyNode(nodes []uint32) bool {
	all := g.cluster.nodes
	if len(nodes) > len(all) {
		return false
	}
	for k, index := range nodes {
		if index != uint32(k) || all[k] == nil {
			return false
		}
	}
	return true
}
