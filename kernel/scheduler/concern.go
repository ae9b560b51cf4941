package scheduler

import (
	"slices"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// usesClaims reports whether a volume of the pod stands for a claim.
func usesClaims(pod *contractv1.Pod) bool {
	return slices.ContainsFunc(pod.Volumes, func(v *contractv1.Volume) bool {
		return v.Type == "persistentVolumeClaim" || v.Type == ephemeralVolume
	})
}

// concerns reports whether pods of the shape are among those that a plugin has to
// do with. What this kernel does not know is all of them.
func (s *shape) concerns(pods string) bool {
	return pods != string(sdk.PodsWithClaims) || s == nil || s.claims
}

// predicates are those of a policy as they are for pods of the shape: one that has
// nothing to do with them looks at no other node.
func (s *shape) predicates(all []contractv1.PredicateInfo) []contractv1.PredicateInfo {
	mine := all
	for i := range all {
		if all[i].Scope == string(sdk.ScopeCluster) && !s.concerns(all[i].Pods) {
			if &mine[0] == &all[0] {
				mine = slices.Clone(all)
			}
			mine[i].Scope = string(sdk.ScopeNode)
		}
	}
	return mine
}

func (s *shape) priorities(all []contractv1.PriorityInfo) []contractv1.PriorityInfo {
	mine := all
	for i := range all {
		if all[i].Scope == string(sdk.ScopeCluster) && !s.concerns(all[i].Pods) {
			if &mine[0] == &all[0] {
				mine = slices.Clone(all)
			}
			mine[i].Scope = string(sdk.ScopeNode)
		}
	}
	return mine
}

// stepsFor are steps without those that have nothing to do with pods of the shape.
func (p pointPolicy) stepsFor(s *shape, points ...contractv1.Point) []contractv1.CycleStep {
	return slices.DeleteFunc(p.steps(points...), func(step contractv1.CycleStep) bool {
		return !s.concerns(p.points[step.Point.Of()][step.Plugin].Pods)
	})
}
