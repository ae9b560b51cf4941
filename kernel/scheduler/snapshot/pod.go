package snapshot

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/convert"
)

// Pod is a pod as it is on a node, or nominated to one.
type Pod struct {
	UID       types.UID
	Namespace string
	Name      string
	Object    *v1.Pod // as last seen
	Shape     *Shape

	Node    string      // that it is on; empty: none
	ignored *Unaffected // by these plugins, as of when it came there
	// startTold is the start that plugins were told.
	startTold int64
}

// PriorityNow is the pod's priority as the API has it.
func (p *Pod) PriorityNow() int32 {
	if p.Object.Spec.Priority == nil {
		return 0
	}
	return *p.Object.Spec.Priority
}

// Shape is a pod without what plugins do not look at: pods of one shape are one class.
type Shape struct {
	*convert.Pod

	Class Class // cached results, or nil
}

// Class is what the snapshot asks of the cached results of a shape.
type Class interface {
	// Number is the one by which plugins know the class.
	Number() uint32
	// Unaffected are the plugins that ignore pods of the class; nil: none.
	Unaffected() *Unaffected
}

// Converted is the pod as plugins see it; nil: of a pod that is gone.
func (s *Shape) Converted() *convert.Pod {
	if s == nil {
		return nil
	}
	return s.Pod
}

// ignoredBy are the plugins that ignore a pod of the shape on a node. One that is
// another pod for scores when it is placed is not what the plugins were asked about.
func (s *Shape) ignoredBy() *Unaffected {
	if s.Class == nil || s.PlacedApart() {
		return nil
	}
	return s.Class.Unaffected()
}
