package scheduler

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/convert"
)

// clusterPod is a pod as it is on a node, or nominated to one.
type clusterPod struct {
	uid       types.UID
	namespace string
	name      string
	pod       *v1.Pod // as last seen
	base      *baseShape

	node    string      // that it is on; empty: none
	ignored *unaffected // by these plugins, as of when it came there
	// startTold is the start that plugins were told.
	startTold int64
}

// priorityNow is the pod's priority as the API has it.
func (p *clusterPod) priorityNow() int32 {
	if p.pod.Spec.Priority == nil {
		return 0
	}
	return *p.pod.Spec.Priority
}

// baseShape is a pod without what plugins do not look at: pods of one shape are one class.
type baseShape struct {
	*convert.Pod

	of shapeClass // cached results, or nil
}

// shapeClass is what the snapshot asks of the cached results of a shape.
type shapeClass interface {
	// Number is the one by which plugins know the class.
	Number() uint32
	// Unaffected are the plugins that ignore pods of the class; nil: none.
	Unaffected() *unaffected
}

// converted is the pod as plugins see it; nil: of a pod that is gone.
func (s *baseShape) converted() *convert.Pod {
	if s == nil {
		return nil
	}
	return s.Pod
}

// ignoredBy are the plugins that ignore a pod of the shape on a node. One that is
// another pod for scores when it is placed is not what the plugins were asked about.
func (s *baseShape) ignoredBy() *unaffected {
	if s.of == nil || s.PlacedApart() {
		return nil
	}
	return s.of.Unaffected()
}
