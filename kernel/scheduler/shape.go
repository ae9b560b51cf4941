package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/convert"
)

// shape is a pod without what plugins do not look at: pods of one shape are one class.
type shape struct {
	*convert.Pod

	entrance entrance // what plugins said at the queue's entrance; owned by the cycle

	refs  int    // pods in the scheduler that have it; owned by the cycle
	class *class // cached results, or nil; owned by the cycle
}

// converted is the pod as plugins see it; nil: of a pod that is gone.
func (s *shape) converted() *convert.Pod {
	if s == nil {
		return nil
	}
	return s.Pod
}

func newShape(pod *v1.Pod) (*shape, error) {
	converted, err := convert.NewPod(pod)
	if err != nil {
		return nil, err
	}
	return &shape{Pod: converted}, nil
}
