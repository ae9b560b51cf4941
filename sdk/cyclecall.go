package sdk

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"
)

// maxStepReasons bounds the reasons of one status.
const maxStepReasons = 64

// cycleCall is a CycleRequest as the guest works with it.
type cycleCall struct {
	ctx      context.Context
	cluster  *Cluster
	steps    []cycleStep
	pods     []QueuedPod
	classID  uint32
	class    *Pod
	nodeID   uint32
	hasNode  bool
	nodeName string
	node     *Node
	nodeIDs  []uint32
	nodes    []*Node
	refused  []uint32
	refusals []refusal

	events     []Event
	classes    []uint32 // QUEUEING_HINT: parallel to pods, or shorter
	standing   standing
	candidates []wireCandidate
	victims    [][]byte // UIDs
	helpful    uint32
	lists      *cycleLists

	deltas     [][]byte
	generation uint64
}

type cycleStep struct {
	plugin  string
	point   point
	socket  string
	waiting []waitingPod

	served *servedState
	run    step
}

type refusal struct {
	code    Code
	plugin  string
	reasons []string
}

type waitingPod struct {
	uid   string
	node  uint32
	since time.Duration
}

// stepResult is a StepResult before it is encoded.
type stepResult struct {
	status      Status
	narrowed    bool
	nodes       []uint32
	keys        []SortKey
	admissions  []Status
	decisions   []decision
	nomination  Nomination
	helps       []uint32
	trial       *Trial
	candidates  []victims
	ranks       [][]int64
	annotations map[string]string
	assumed     []Assumption
	took        time.Duration
}

func (c *cycleCall) pod() *QueuedPod { return &c.pods[0] }

func (c *cycleCall) placement() *Placement {
	return &Placement{Cluster: c.cluster, Pod: c.pod(), Node: c.node, NodeName: c.nodeName}
}

func (c *cycleCall) binding(s *cycleStep) *Binding {
	return &Binding{Context: c.ctx, Pod: c.pod(), Node: c.node, NodeName: c.nodeName, Socket: s.socket}
}

func (c *cycleCall) waiting(s *cycleStep) []Waiting {
	list := make([]Waiting, 0, len(s.waiting))
	for _, w := range s.waiting {
		n := c.cluster.Node(w.node)
		if n == nil || n.Pods[w.uid] == nil {
			continue // it lost its node a moment ago
		}
		list = append(list, Waiting{Pod: n.Pods[w.uid], Node: n, Since: w.since})
	}
	return list
}

// cycleLists is the memory of lists over nodes, used again by the next call: in a
// module those of a pod that fits nowhere are most of what there is to collect.
type cycleLists struct {
	nodeIDs, refused []uint32
	nodes            []*Node
	refusedNodes     []RefusedNode
	refusals         []refusal
	candidates       []wireCandidate
	victims          [][]byte
}

// keep remembers the lists of a call for the next one.
func (l *cycleLists) keep(c *cycleCall) {
	l.nodeIDs, l.refused, l.candidates, l.victims = c.nodeIDs[:0], c.refused[:0], c.candidates[:0], c.victims[:0]
}

// share gives refusals of the call the words of those of the call before.
func (l *cycleLists) share(refusals []refusal) {
	for k := range refusals {
		r := &refusals[k]
		for i := range l.refusals {
			if known := &l.refusals[i]; known.code == r.code && known.plugin == r.plugin && slices.Equal(known.reasons, r.reasons) {
				*r = *known
				break
			}
		}
	}
	l.refusals = refusals
}

// take makes the entry say so. It writes what is another than before: while a module's
// garbage is collected, a pointer that is written costs fifty times one that is read.
func (n *RefusedNode) take(node *Node, r *refusal) {
	if n.Node != node {
		n.Node = node
	}
	if n.Plugin != r.plugin {
		n.Plugin = r.plugin
	}
	if len(n.Reasons) != len(r.reasons) || unsafe.SliceData(n.Reasons) != unsafe.SliceData(r.reasons) {
		n.Reasons = r.reasons
	}
	n.Unresolvable = r.code == UnschedulableAndUnresolvable
}

func (c *cycleCall) refusedNodes() []RefusedNode {
	var list []RefusedNode
	if c.lists != nil {
		list = sized(c.lists.refusedNodes, len(c.nodes))
		c.lists.refusedNodes = list[:0]
	} else {
		list = make([]RefusedNode, len(c.nodes))
	}
	for k, n := range c.nodes {
		r := &refusal{}
		if k < len(c.refused) && int(c.refused[k]) < len(c.refusals) {
			r = &c.refusals[c.refused[k]]
		}
		list[k].take(n, r)
	}
	return list
}

// Cycle answers an encoded CycleRequest (contract/v1/cycle.proto) with an encoded
// CycleResponse. The deltas of the request are applied first. A step that panics
// is answered with Error.
func (g *Guest) Cycle(ctx context.Context, request []byte) ([]byte, error) {
	c, err := g.cycle(ctx, request)
	if err != nil {
		return nil, err
	}
	return c.answer(), nil
}

// cycle decodes a request and finds what it is about. What it returns needs the
// guest no more if the call is beside.
func (g *Guest) cycle(ctx context.Context, request []byte) (*cycleCall, error) {
	l := &g.lists
	c := &cycleCall{ctx: ctx, cluster: &g.cluster, nodeIDs: l.nodeIDs, refused: l.refused, candidates: l.candidates, victims: l.victims}
	if err := decodeCycle(request, c); err != nil {
		return nil, err
	}
	defer l.keep(c)
	for _, delta := range c.deltas {
		if err := g.Apply(delta); err != nil {
			return nil, err
		}
	}
	if len(c.steps) == 1 && (c.steps[0].point == pointPostFilter || c.steps[0].point == pointChoose) {
		c.lists = l // the call is over before the next one
		l.share(c.refusals)
	}
	classed := false
	for k := range c.steps {
		s := &c.steps[k]
		i := g.Index(s.plugin)
		if i >= 0 {
			s.served, s.run = &g.plugins[i], g.plugins[i].at[s.point]
		}
		if s.run == nil {
			return nil, fmt.Errorf("%w: %s at point %d", ErrPlugin, s.plugin, s.point)
		}
		switch s.point {
		case pointPreFilter, pointPreScore:
			classed = true
		case pointPreEnqueue, pointQueueSort, pointPermitReview, pointQueueingHint:
			continue
		}
		if s.point != pointPreFilter && s.point != pointPreScore && len(c.pods) != 1 {
			return nil, fmt.Errorf("%w: %d pods at point %d", ErrDelta, len(c.pods), s.point)
		}
	}
	if classed {
		if c.class = g.cluster.classes[c.classID]; c.class == nil {
			return nil, fmt.Errorf("%w: %d", ErrClass, c.classID)
		}
	}
	for k, class := range c.classes {
		if class == 0 || k >= len(c.pods) {
			continue
		}
		if c.pods[k].Pod = g.cluster.classes[class]; c.pods[k].Pod == nil {
			return nil, fmt.Errorf("%w: %d", ErrClass, class)
		}
	}
	switch {
	case c.lists != nil:
		var err error
		if c.nodes, err = g.listed(l.nodes, c.nodeIDs); err != nil {
			return nil, err
		}
		l.nodes = c.nodes
	default:
		for _, index := range c.nodeIDs {
			n := g.cluster.Node(index)
			if n == nil {
				return nil, fmt.Errorf("%w: index %d", ErrNode, index)
			}
			c.nodes = append(c.nodes, n)
		}
	}
	if c.hasNode {
		c.node = g.cluster.Node(c.nodeID)
	}
	if c.beside() && c.node != nil {
		// What grows with the pods is written by others meanwhile.
		n := *c.node
		n.Pods, n.Requested, n.NonZeroMilliCPU, n.NonZeroMemory = nil, Resources{}, 0, 0
		c.node = &n
	}
	return c, nil
}

// listed makes the list one of the nodes at the indexes, writing what is another.
func (g *Guest) listed(list []*Node, indexes []uint32) ([]*Node, error) {
	list = sized(list, len(indexes))
	for k, index := range indexes {
		n := g.cluster.Node(index)
		if n == nil {
			return nil, fmt.Errorf("%w: index %d", ErrNode, index)
		}
		if list[k] != n {
			list[k] = n
		}
	}
	return list, nil
}

// beside reports whether the call may run while the guest does other things.
func (c *cycleCall) beside() bool {
	return !slices.ContainsFunc(c.steps, func(s cycleStep) bool { return !s.point.beside() })
}

// answer runs the steps.
func (c *cycleCall) answer() []byte {
	var out []byte
	for k := range c.steps {
		var code Code
		if out, code = c.one(out, &c.steps[k]); c.steps[k].point.stops(code) {
			break
		}
	}
	return out
}

// one runs a step and appends its result.
func (c *cycleCall) one(out []byte, s *cycleStep) (with []byte, code Code) {
	defer func() {
		if p := recover(); p != nil {
			r := stepResult{status: Fail(containment(s.plugin, p))}
			with, code = appendStepResult(out, &r), Error
		}
	}()
	var r stepResult
	if runtime.GOARCH == "wasm" { // the host measures, and asks seldom about more than one
		s.run(c, s, &r)
	} else {
		began := time.Now()
		s.run(c, s, &r)
		r.took = time.Since(began)
	}
	return appendStepResult(out, &r), r.status.Code
}
