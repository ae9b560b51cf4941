package framework

import (
	"slices"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Concerns reports whether a pod is among those that a plugin has to do with. A kind of
// pods that this kernel does not know is all of them.
func Concerns(pod *convert.Pod, pods string) bool {
	return pods != string(sdk.PodsWithClaims) || pod == nil || pod.Claims
}

// PredicatesFor are predicates as they are for a pod: one that has nothing to do with it
// looks at no other node.
func PredicatesFor(pod *convert.Pod, all []contractv1.PredicateInfo) []contractv1.PredicateInfo {
	return narrowed(pod, all, func(p *contractv1.PredicateInfo) (*string, string) { return &p.Scope, p.Pods })
}

// PrioritiesFor are priorities as they are for a pod.
func PrioritiesFor(pod *convert.Pod, all []contractv1.PriorityInfo) []contractv1.PriorityInfo {
	return narrowed(pod, all, func(p *contractv1.PriorityInfo) (*string, string) { return &p.Scope, p.Pods })
}

// narrowed is all, or a copy in which plugins that have nothing to do with the pod look
// at one node.
func narrowed[T any](pod *convert.Pod, all []T, of func(*T) (scope *string, pods string)) []T {
	mine := all
	for i := range all {
		scope, pods := of(&all[i])
		if *scope != string(sdk.ScopeCluster) || Concerns(pod, pods) {
			continue
		}
		if &mine[0] == &all[0] {
			mine = slices.Clone(all)
		}
		scope, _ = of(&mine[i])
		*scope = string(sdk.ScopeNode)
	}
	return mine
}

// StepsFor are steps without those that have nothing to do with the pod.
func (p Plugins) StepsFor(pod *convert.Pod, points ...contractv1.Point) []contractv1.CycleStep {
	return slices.DeleteFunc(p.Steps(points...), func(step contractv1.CycleStep) bool {
		return !Concerns(pod, p.Points[step.Point.Of()][step.Plugin].Pods)
	})
}
