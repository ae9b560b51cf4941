package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// shape is what all pods of a shape have in common; owned by the cycle.
type shape struct {
	snapshot.Shape

	entrance entrance // what plugins said at the queue's entrance

	refs  int                // pods in the scheduler that have it
	class *resultcache.Class // cached results, or nil
	// Of the class: the decision that used it last, how many of its pods are decided about
	// at once, and what was found out by taking pods off nodes.
	used   uint64
	sizer  batchSizer
	trials *trials
}

// setClass gives the shape cached results; nil: none.
func (s *shape) setClass(c *resultcache.Class) {
	s.class, s.Class, s.used, s.sizer, s.trials = c, nil, 0, batchSizer{}, nil
	if c != nil {
		s.Class = c
	}
}

// converted is the pod as plugins see it; nil: of a pod that is gone.
func (s *shape) converted() *convert.Pod {
	if s == nil {
		return nil
	}
	return s.Shape.Converted()
}

func newShape(pod *v1.Pod) (*shape, error) {
	converted, err := convert.NewPod(pod)
	if err != nil {
		return nil, err
	}
	return &shape{Shape: snapshot.Shape{Pod: converted}}, nil
}
