package scheduler

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// Questions about what is not so: pods are put on nodes or taken off them in the
// plugins' replicas alone, by deltas like any other, and put back before anything
// else is asked. The snapshot and the classes' results are not touched.

// applyHypothetical hands operations to the plugins that are no change of the cluster. Where
// others owned the state meanwhile there is nothing to take back.
func (s *Scheduler) applyHypothetical(ctx context.Context, operations []*contractv1.Operation) error {
	if err := ctx.Err(); err != nil || len(operations) == 0 {
		return err
	}
	s.hypothetical.note(operations)
	return s.applyAll(ctx, operations)
}

// hypothetical are the pods on nodes by which plugins' replicas differ from the snapshot:
// true, a pod that is not there; false, one that is.
type hypothetical map[hypothesis]bool

type hypothesis struct {
	node uint32
	uid  string
}

// note takes in operations that the plugins are told.
func (s *hypothetical) note(operations []*contractv1.Operation) {
	if *s == nil {
		*s = hypothetical{}
	}
	put := func(node uint32, uid string, added bool) {
		at := hypothesis{node, uid}
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
func (s *hypothetical) back(of *snapshot.Snapshot) []*contractv1.Operation {
	var back []*contractv1.Operation
	for at, added := range *s {
		e := of.ByIndex[at.node]
		if added {
			back = append(back, snapshot.PodRemove(e, at.uid))
		} else {
			back = append(back, snapshot.PodAdd(e, e.Pods[types.UID(at.uid)]))
		}
	}
	clear(*s)
	return back
}

// ownNode is the node that a pod is nominated to, if it fits there: it is tried
// before all others and not compared with them.
func (s *Scheduler) ownNode(ctx context.Context, p *podEntry, c *resultcache.Class) (*snapshot.Node, error) {
	if p.nominated == "" {
		return nil, nil
	}
	e := s.snapshot.ByName[p.nominated]
	if e == nil || e.Object == nil || !c.Verdicts().FitsAlone(e.Index) {
		return nil, nil
	}
	answers, err := c.WhatIf().CheckWithNominees(ctx, s.view, []uint32{e.Index}, &p.Pod)
	if err != nil || !answers[0].Fits() {
		return nil, err
	}
	return e, nil
}
