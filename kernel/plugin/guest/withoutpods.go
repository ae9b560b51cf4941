package guest

import (
	"slices"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// ofPod reports whether an operation is about a pod on a node.
func ofPod(op *contractv1.Operation) bool {
	return op.GetPodAdd() != nil || op.GetPodRemove() != nil
}

// WithoutPods is a delta without the pods on nodes; itself where it has none.
func WithoutPods(delta *contractv1.Delta) *contractv1.Delta {
	if !slices.ContainsFunc(delta.GetOperations(), ofPod) {
		return delta
	}
	rest := &contractv1.Delta{Generation: delta.GetGeneration(), Reset_: delta.GetReset_()}
	for _, op := range delta.GetOperations() {
		if !ofPod(op) {
			rest.Operations = append(rest.Operations, op)
		}
	}
	return rest
}

// withoutPods is the part for a guest that needs no pods on nodes.
func (p Part) withoutPods() (Part, error) {
	rest := WithoutPods(p.Delta)
	if rest == p.Delta {
		return p, nil
	}
	return NewPart(rest)
}

// Empty reports whether the part says nothing but the generation that follows.
func (p Part) Empty() bool {
	return len(p.Delta.GetOperations()) == 0 && !p.Delta.GetReset_()
}

// Parts are one delta for all units: whole, and without pods where somebody wants it.
type Parts struct {
	Whole Part
	rest  *Part
}

// Of is the part for a unit.
func (p *Parts) Of(podless bool) (Part, error) {
	if !podless {
		return p.Whole, nil
	}
	if p.rest == nil {
		rest, err := p.Whole.withoutPods()
		if err != nil {
			return Part{}, err
		}
		p.rest = &rest
	}
	return *p.rest, nil
}
