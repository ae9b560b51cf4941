package scheduler

import (
	"slices"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// concerns reports whether pods of the shape are among those that a plugin has to
// do with. What this kernel does not know is all of them.
func (s *shape) concerns(pods string) bool {
	return pods != string(sdk.PodsWithClaims) || s == nil || s.Claims
}

// predicates are those of a policy as they are for pods of the shape: one that has
// nothing to do with them looks at no other node.
func (s *shape) predicates(all []contractv1.PredicateInfo) []contractv1.PredicateInfo {
	return narrowed(s, all, func(p *contractv1.PredicateInfo) (*string, string) { return &p.Scope, p.Pods })
}

func (s *shape) priorities(all []contractv1.PriorityInfo) []contractv1.PriorityInfo {
	return narrowed(s, all, func(p *contractv1.PriorityInfo) (*string, string) { return &p.Scope, p.Pods })
}

// narrowed is all, or a copy in which plugins that have nothing to do with pods of
// the shape look at one node.
func narrowed[T any](s *shape, all []T, of func(*T) (scope *string, pods string)) []T {
	mine := all
	for i := range all {
		scope, pods := of(&all[i])
		if *scope != string(sdk.ScopeCluster) || s.concerns(pods) {
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

// stepsFor are steps without those that have nothing to do with pods of the shape.
func (p pointPolicy) stepsFor(s *shape, points ...contractv1.Point) []contractv1.CycleStep {
	return slices.DeleteFunc(p.steps(points...), func(step contractv1.CycleStep) bool {
		return !s.concerns(p.points[step.Point.Of()][step.Plugin].Pods)
	})
}
