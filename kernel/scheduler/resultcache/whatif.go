package resultcache

import (
	"context"
	"fmt"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Questions about what is not so: how nodes would fit with pods on them that are only
// nominated there, or without some that are on them. The answers that the class keeps are
// not touched.

// WhatIf asks the predicates about nodes as the plugins' replicas have them. It changes
// nothing of what the class keeps.
type WhatIf struct{ c *Class }

// Verdict is a predicate's verdict about a node; of no predicate: it fits.
type Verdict struct {
	predicate int32
	Code      uint32
}

// Fits reports whether no predicate refused.
func (r Verdict) Fits() bool { return r.predicate == fits }

var FitsNode = Verdict{predicate: fits}

// Check asks the predicates of the wanted scopes about nodes as the replicas have
// them now, one predicate after the other over those that pass. Answers run
// parallel to nodes.
func (w WhatIf) Check(ctx context.Context, nodes []uint32, wanted func(*contractv1.PredicateInfo) bool) ([]Verdict, error) {
	answers := make([]Verdict, len(nodes))
	alive := make([]int, len(nodes))
	for k := range nodes {
		answers[k], alive[k] = FitsNode, k
	}
	for p := range w.c.predicates {
		if len(alive) == 0 {
			break
		}
		if w.c.predicates[p].skip.now || !wanted(w.c.predicates[p].PredicateInfo) {
			continue
		}
		out, err := w.verdictsOf(ctx, p, nodes, alive)
		if err != nil {
			return nil, err
		}
		passed := alive[:0]
		for i, k := range alive {
			if out[i] == 0 {
				passed = append(passed, k)
			} else {
				answers[k] = Verdict{int32(p), out[i]}
			}
		}
		alive = passed
	}
	return answers, ctx.Err()
}

// verdictsOf are the verdicts of predicate p about those of the nodes that are alive.
// One that looks at nodes without their pods is not asked again about what the class
// has its answer to.
func (w WhatIf) verdictsOf(ctx context.Context, p int, nodes []uint32, alive []int) ([]uint32, error) {
	out, ask, at := make([]uint32, len(alive)), make([]uint32, 0, len(alive)), make([]int, 0, len(alive))
	kept := !w.c.predicates[p].looksAtPods() && !w.c.predicates[p].stale
	for i, k := range alive {
		if n := nodes[k]; kept && int(n) < len(w.c.predicates[p].verdicts) && w.c.predicates[p].verdicts[n] != unknown {
			out[i] = w.c.predicates[p].verdicts[n]
		} else {
			ask, at = append(ask, n), append(at, i)
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	answers := make([]uint32, len(ask))
	if err := w.c.policy.Filter(ctx, p, w.c.id, ask, answers); err != nil {
		if !w.c.predicates[p].IgnoreFailure || ctx.Err() != nil {
			return nil, fmt.Errorf("predicate %s: %w", w.c.predicates[p].Name, err)
		}
		clear(answers)
	}
	for i, verdict := range answers {
		out[at[i]] = verdict
	}
	return out, nil
}

func AnyScope(*contractv1.PredicateInfo) bool       { return true }
func NodeScope(p *contractv1.PredicateInfo) bool    { return p.Scope != string(sdk.ScopeCluster) }
func ClusterScope(p *contractv1.PredicateInfo) bool { return p.Scope == string(sdk.ScopeCluster) }

// LooksBeyond reports whether a predicate looks beyond a node.
func (c *Class) LooksBeyond() bool {
	for p := range c.predicates {
		if c.predicates[p].looksBeyond() {
			return true
		}
	}
	return false
}

// CheckWithNominees judges nodes with the pods added that are nominated there, one node
// after the other where a predicate looks beyond its node. The answer of a node
// without such pods is that it fits.
func (w WhatIf) CheckWithNominees(ctx context.Context, s *View, nodes []uint32, but *snapshot.Pod) ([]Verdict, error) {
	answers := make([]Verdict, len(nodes))
	var ask []uint32
	var at []int
	var put, take [][]*contractv1.Operation
	for k, n := range nodes {
		answers[k] = FitsNode
		e := s.ByIndex[n]
		if e == nil {
			continue
		}
		pods := s.NomineesAbove(e.Name, w.c.shape.Message.GetPriority(), but)
		if len(pods) == 0 {
			continue
		}
		var add, remove []*contractv1.Operation
		for _, p := range pods {
			add, remove = append(add, snapshot.PodAdd(e, p)), append(remove, snapshot.PodRemove(e, string(p.UID)))
		}
		ask, at, put, take = append(ask, n), append(at, k), append(put, add), append(take, remove)
	}
	if len(ask) == 0 || s.ApplyHypothetical == nil {
		return answers, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	one := func(nodes []uint32, at []int, put, take []*contractv1.Operation) error {
		if err := s.ApplyHypothetical(ctx, put); err != nil {
			return err
		}
		got, err := w.Check(ctx, nodes, AnyScope)
		if undone := s.ApplyHypothetical(ctx, take); undone != nil {
			return undone
		}
		for k, r := range got {
			answers[at[k]] = r
		}
		return err
	}
	if !w.c.LooksBeyond() {
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
func (u *update) keepRoom(ctx context.Context, alive []uint32) ([]uint32, error) {
	if len(u.view.Nominees) == 0 && len(u.reserved) == 0 {
		return alive, nil
	}
	answers, err := u.WhatIf().CheckWithNominees(ctx, u.view, alive, nil)
	if err != nil {
		return nil, err
	}
	passed := make([]uint32, 0, len(alive))
	for k, n := range alive {
		r := answers[k]
		if r.Fits() {
			passed = append(passed, n)
			continue
		}
		if u.reserved == nil {
			u.reserved = map[uint32]bool{}
		}
		u.reserved[n] = true
		u.predicates[r.predicate].verdicts[n] = r.Code
		u.settle(n, r.predicate)
	}
	return passed, nil
}

// unreserve has the listed nodes looked at as they are. A verdict that tells of a
// nominated pod too is no answer about the node alone.
func (u *update) unreserve() {
	if len(u.reserved) == 0 {
		return
	}
	for _, n := range u.list {
		if !u.reserved[n] {
			continue
		}
		delete(u.reserved, n)
		u.invalidateVerdicts(n)
	}
}
