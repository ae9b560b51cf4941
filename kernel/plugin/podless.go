package plugin

import (
	"slices"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// podless reports whether plugins look at no pod on a node, which each says by its
// scope. They are told of none: pods come and go a thousand times as often as what
// else a replica has, and a process would be woken for them again and again.
func podless(described map[string]*contractv1.PluginDescription) bool {
	for _, d := range described {
		if !sdk.SchedulingKind(d.GetKind()) || d.GetScope() != string(sdk.ScopeNodeObject) {
			return false
		}
	}
	return len(described) > 0
}

// ofPod reports whether an operation is about a pod on a node.
func ofPod(op *contractv1.Operation) bool {
	return op.GetPodAdd() != nil || op.GetPodRemove() != nil
}

// withoutPods is a delta without the pods on nodes; itself where it has none.
func withoutPods(delta *contractv1.Delta) *contractv1.Delta {
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

// withoutPods is the part for a guest that is told of no pods.
func (p part) withoutPods() (part, error) {
	rest := withoutPods(p.delta)
	if rest == p.delta {
		return p, nil
	}
	return newPart(rest)
}

// empty reports whether the part says nothing but the generation that follows.
func (p part) empty() bool {
	return len(p.delta.GetOperations()) == 0 && !p.delta.GetReset_()
}

// parts are one delta for all units: whole, and without pods where somebody wants it.
type parts struct {
	whole part
	rest  *part
}

// of is the part for a unit.
func (p *parts) of(podless bool) (part, error) {
	if !podless {
		return p.whole, nil
	}
	if p.rest == nil {
		rest, err := p.whole.withoutPods()
		if err != nil {
			return part{}, err
		}
		p.rest = &rest
	}
	return *p.rest, nil
}
