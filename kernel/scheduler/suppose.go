package scheduler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Questions about what is not so: pods are put on nodes or taken off them in the
// plugins' replicas alone, by deltas like any other, and put back before anything
// else is asked. The snapshot and the classes' results are not touched.

// suppose hands operations to the plugins that are no change of the cluster. Where
// others owned the state meanwhile there is nothing to take back.
func (s *Scheduler) suppose(ctx context.Context, operations []*contractv1.Operation) error {
	if err := ctx.Err(); err != nil || len(operations) == 0 {
		return err
	}
	s.supposed.note(operations)
	return s.applyAll(ctx, operations)
}

// supposed are the pods on nodes by which plugins' replicas differ from the snapshot:
// true, a pod that is not there; false, one that is.
type supposed map[supposition]bool

type supposition struct {
	node uint32
	uid  string
}

// note takes in operations that the plugins are told.
func (s *supposed) note(operations []*contractv1.Operation) {
	if *s == nil {
		*s = supposed{}
	}
	put := func(node uint32, uid string, added bool) {
		at := supposition{node, uid}
		if before, known := (*s)[at]; known && before != added {
			delete(*s, at)
		} else {
			(*s)[at] = added
		}
	}
	for _, operation := range operations {
		switch op := operation.Op.(type) {
		case *contractv1.Operation_PodAdd:
			put(op.PodAdd.Node, op.PodAdd.Pod.Uid, true)
		case *contractv1.Operation_PodRemove:
			put(op.PodRemove.Node, op.PodRemove.Uid, false)
		}
	}
}

// back takes all of it back: the operations that have to be told for that.
func (s *supposed) back(of *snapshot) []*contractv1.Operation {
	var back []*contractv1.Operation
	for at, added := range *s {
		e := of.byIndex[at.node]
		if added {
			back = append(back, opPodRemove(e, at.uid))
		} else {
			back = append(back, opPodAdd(e, e.pods[types.UID(at.uid)]))
		}
	}
	clear(*s)
	return back
}

func opPodRemove(e *nodeEntry, uid string) *contractv1.Operation {
	return &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: e.index, Uid: uid}}}
}

// ruling is a predicate's verdict about a node; of no predicate: it fits.
type ruling struct {
	predicate int32
	verdict   uint32
}

var fitting = ruling{predicate: fits}

// judge asks the predicates of the wanted scopes about nodes as the replicas have
// them now, one predicate after the other over those that pass. Answers run
// parallel to nodes.
func (c *class) judge(ctx context.Context, nodes []uint32, wanted func(*PredicateInfo) bool) ([]ruling, error) {
	answers := make([]ruling, len(nodes))
	alive := make([]int, len(nodes))
	for k := range nodes {
		answers[k], alive[k] = fitting, k
	}
	for p := range c.predicates {
		if len(alive) == 0 {
			break
		}
		if c.predicates[p].skip.now || !wanted(c.predicates[p].PredicateInfo) {
			continue
		}
		out, err := c.rulings(ctx, p, nodes, alive)
		if err != nil {
			return nil, err
		}
		passed := alive[:0]
		for i, k := range alive {
			if out[i] == 0 {
				passed = append(passed, k)
			} else {
				answers[k] = ruling{int32(p), out[i]}
			}
		}
		alive = passed
	}
	return answers, ctx.Err()
}

// rulings are the verdicts of predicate p about those of the nodes that are alive.
// One that looks at nodes without their pods is not asked again about what the class
// has its answer to.
func (c *class) rulings(ctx context.Context, p int, nodes []uint32, alive []int) ([]uint32, error) {
	out, ask, at := make([]uint32, len(alive)), make([]uint32, 0, len(alive)), make([]int, 0, len(alive))
	kept := !c.predicates[p].looksAtPods() && !c.predicates[p].stale
	for i, k := range alive {
		if n := nodes[k]; kept && int(n) < len(c.predicates[p].verdicts) && c.predicates[p].verdicts[n] != unknown {
			out[i] = c.predicates[p].verdicts[n]
		} else {
			ask, at = append(ask, n), append(at, i)
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	answers := make([]uint32, len(ask))
	if err := c.policy.Filter(ctx, p, c.id, ask, answers); err != nil {
		if !c.predicates[p].IgnoreFailure || ctx.Err() != nil {
			return nil, fmt.Errorf("predicate %s: %w", c.predicates[p].Name, err)
		}
		clear(answers)
	}
	for i, verdict := range answers {
		out[at[i]] = verdict
	}
	return out, nil
}

func anyScope(*PredicateInfo) bool       { return true }
func nodeScope(p *PredicateInfo) bool    { return p.Scope != string(sdk.ScopeCluster) }
func clusterScope(p *PredicateInfo) bool { return p.Scope == string(sdk.ScopeCluster) }

// clustered reports whether a predicate looks beyond a node.
func (c *class) clustered() bool {
	for p := range c.predicates {
		if c.predicates[p].looksBeyond() {
			return true
		}
	}
	return false
}

// besides judges nodes with the pods added that are nominated there, one node
// after the other where a predicate looks beyond its node. The answer of a node
// without such pods is that it fits.
func (c *class) besides(ctx context.Context, s *snapshot, nodes []uint32, but *podEntry) ([]ruling, error) {
	answers := make([]ruling, len(nodes))
	var ask []uint32
	var at []int
	var put, take [][]*contractv1.Operation
	for k, n := range nodes {
		answers[k] = fitting
		e := s.byIndex[n]
		if e == nil {
			continue
		}
		pods := s.nomineesAbove(e.name, c.shape.Message.GetPriority(), but)
		if len(pods) == 0 {
			continue
		}
		var add, remove []*contractv1.Operation
		for _, p := range pods {
			add, remove = append(add, opPodAdd(e, p)), append(remove, opPodRemove(e, string(p.uid)))
		}
		ask, at, put, take = append(ask, n), append(at, k), append(put, add), append(take, remove)
	}
	if len(ask) == 0 || s.suppose == nil {
		return answers, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	one := func(nodes []uint32, at []int, put, take []*contractv1.Operation) error {
		if err := s.suppose(ctx, put); err != nil {
			return err
		}
		got, err := c.judge(ctx, nodes, anyScope)
		if undone := s.suppose(ctx, take); undone != nil {
			return undone
		}
		for k, r := range got {
			answers[at[k]] = r
		}
		return err
	}
	if !c.clustered() {
		return answers, one(ask, at, join(put), join(take))
	}
	for k := range ask {
		if err := one(ask[k:k+1], at[k:k+1], put[k], take[k]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func join(lists [][]*contractv1.Operation) (all []*contractv1.Operation) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// keepRoom settles those of the nodes that fit by themselves, but not beside the
// pods that are nominated there; it returns the others.
func (c *class) keepRoom(ctx context.Context, s *snapshot, alive []uint32) ([]uint32, error) {
	if len(s.nominees) == 0 && len(c.reserved) == 0 {
		return alive, nil
	}
	answers, err := c.besides(ctx, s, alive, nil)
	if err != nil {
		return nil, err
	}
	passed := make([]uint32, 0, len(alive))
	for k, n := range alive {
		r := answers[k]
		if r.predicate == fits {
			passed = append(passed, n)
			continue
		}
		if c.reserved == nil {
			c.reserved = map[uint32]bool{}
		}
		c.reserved[n] = true
		c.predicates[r.predicate].verdicts[n] = r.verdict
		c.settle(n, r.predicate)
	}
	return passed, nil
}

// unreserve has the listed nodes looked at as they are. A verdict that tells of a
// nominated pod too is no answer about the node alone.
func (c *class) unreserve() {
	if len(c.reserved) == 0 {
		return
	}
	for _, n := range c.list {
		if !c.reserved[n] {
			continue
		}
		delete(c.reserved, n)
		c.invalidateVerdicts(n)
	}
}

// fitsAlone reports whether a node fits as it is, nominated pods aside.
func (c *class) fitsAlone(n uint32) bool { return c.fail[n] == fits || c.reserved[n] }

// ownNode is the node that a pod is nominated to, if it fits there: it is tried
// before all others and not compared with them.
func (s *Scheduler) ownNode(ctx context.Context, p *podEntry, c *class) (*nodeEntry, error) {
	if p.nominated == "" {
		return nil, nil
	}
	e := s.snapshot.byName[p.nominated]
	if e == nil || e.node == nil || !c.fitsAlone(e.index) {
		return nil, nil
	}
	answers, err := c.besides(ctx, s.snapshot, []uint32{e.index}, p)
	if err != nil || answers[0].predicate != fits {
		return nil, err
	}
	return e, nil
}
