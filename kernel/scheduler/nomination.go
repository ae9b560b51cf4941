package scheduler

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// A pod that is nominated to a node has its room kept there: a pod of the same
// priority or a lower one is put on the node only if it fits beside it too, and
// without it. What counts is what the scheduler nominated, until
// status.nominatedNodeName says something else.

// nominated notes the node that a pod is nominated to; empty: none. Whoever was
// kept from a node by it may fit there now.
func (s *Scheduler) nominated(p *podEntry, node string) {
	before := p.nominated
	if before == node {
		return
	}
	p.nominated = node
	if before != "" {
		s.snapshot.Unnominate(&p.Pod, before)
		s.note(eventKey{
			kind: contractv1.KindPod, action: contractv1.Action_DELETE, before: p.shape, own: s.eventSeq + 1,
			capped: true, ceiling: p.shape.Message.GetPriority(),
		})
		p.except = s.eventSeq
	}
	if node != "" {
		s.snapshot.Nominate(&p.Pod, node)
	}
}

// nominee takes in status.nominatedNodeName of a pod that waits. While it says
// nothing, as it did before, what the scheduler nominated a moment ago stands; and a
// node that the pod was expected on and gave up is none, though the name is seen late.
func (s *Scheduler) nominee(p *podEntry, before *v1.Pod) {
	now := p.Object.Status.NominatedNodeName
	if now == "" && (before == nil || before.Status.NominatedNodeName == "") || now != "" && p.expected.was(now) {
		return
	}
	p.expected = nil
	s.nominated(p, now)
}

// ownDecision fills in the decision for a pod that goes to the node that it was
// nominated to: no other node was looked at.
func (s *Scheduler) ownDecision(ctx context.Context, p *podEntry, c *resultcache.Class, node *snapshot.Node, d *explain.Decision) error {
	d.Feasible = 1
	d.Outcomes = append(d.Outcomes, framework.Outcome{
		Point: framework.PointNames[contractv1.Point_POST_FILTER], Code: contractv1.CodeNames[contractv1.Code_SUCCESS],
		Reasons: []string{"it was nominated to " + node.Name + ", whose room was kept for it"},
	})
	if _, found := slices.BinarySearch(c.Feasible(), node.Index); s.cfg.Explain == 0 || !found {
		return nil
	}
	if _, err := c.UpdateTotals(ctx); err != nil {
		c.Forget()
		return err
	}
	d.Total = c.Totals().Of(node.Index)
	d.Snapshot = c.DecisionSnapshot(s.view, node.Index, d.Total)
	return nil
}

// rooms says which nomination a pod has, and on which nodes room is kept from it.
func (s *Scheduler) rooms(p *podEntry, c *resultcache.Class) string {
	note := ""
	if p.nominated != "" {
		note = "it is nominated to " + p.nominated + ", where room is kept for it"
		if p.preempting {
			note += "; pods are being evicted from there"
		}
	}
	for n := range c.Reserved() {
		e := s.snapshot.ByIndex[n]
		if e == nil || e.Name == p.nominated {
			continue
		}
		if note != "" {
			note += "; "
		}
		note += "room on " + e.Name + " is kept for"
		for _, other := range s.snapshot.NomineesAbove(e.Name, p.shape.Message.GetPriority(), &p.Pod) {
			note += " " + other.Namespace + "/" + other.Name
		}
	}
	return note
}
