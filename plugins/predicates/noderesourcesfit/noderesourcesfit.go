// Package noderesourcesfit is the predicate NodeResourcesFit: what the pods of a
// node request, and the pod with them, may not exceed what the node can allocate.
package noderesourcesfit

import (
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/plugins/predicates/noderesources"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "NodeResourcesFit"

type predicate struct{ resources, groups []string } // ignored

// New returns the predicate, which ignores nothing until it is configured.
func New() sdk.Predicate {
	p := &predicate{}
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNode, Contract: contract.Three, Configure: p.configure, Prepare: p.prepare, Filter: filter}
}

func (p *predicate) configure(data []byte) error {
	args, err := noderesources.ParseFitArgs(data)
	if err != nil {
		return fmt.Errorf("configuration of %s: %w", Name, err)
	}
	p.resources, p.groups = args.IgnoredResources, args.IgnoredResourceGroups
	return nil
}

// scalar is what a class asks for of a resource beside the three that all nodes have.
type scalar struct {
	name, reason string
	amount       int64
}

// prepare lists the scalars that count, by name.
func (p *predicate) prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	var out []scalar
	for name, amount := range pod.Requests.Scalar {
		if amount == 0 || !noderesources.Scalar(name) || p.ignores(name) {
			continue
		}
		out = append(out, scalar{name, "Insufficient " + name, amount})
	}
	slices.SortFunc(out, func(a, b scalar) int { return strings.Compare(a.name, b.name) })
	return out
}

func (p *predicate) ignores(name string) bool {
	if !noderesources.Extended(name) {
		return false
	}
	group, _, _ := strings.Cut(name, "/")
	return slices.Contains(p.resources, name) || slices.Contains(p.groups, group)
}

func filter(r *sdk.Request) sdk.Verdict {
	want, have, used := &r.Pod.Requests, &r.Node.Allocatable, &r.Node.Requested
	scalars := r.State.([]scalar)
	// A resource that the pod does not ask for is not checked, so that a node
	// that shrank still takes pods that need nothing of it.
	pods := used.Pods+1 > have.Pods
	cpu := want.MilliCPU > 0 && want.MilliCPU > have.MilliCPU-used.MilliCPU
	memory := want.Memory > 0 && want.Memory > have.Memory-used.Memory
	storage := want.EphemeralStorage > 0 && want.EphemeralStorage > have.EphemeralStorage-used.EphemeralStorage
	if !pods && !cpu && !memory && !storage && len(scalars) == 0 {
		return sdk.Fits()
	}
	var reasons []string
	never := false
	if pods {
		reasons = append(reasons, "Too many pods")
	}
	if cpu {
		reasons = append(reasons, "Insufficient cpu")
		never = never || want.MilliCPU > have.MilliCPU
	}
	if memory {
		reasons = append(reasons, "Insufficient memory")
		never = never || want.Memory > have.Memory
	}
	if storage {
		reasons = append(reasons, "Insufficient ephemeral-storage")
		never = never || want.EphemeralStorage > have.EphemeralStorage
	}
	for i := range scalars {
		s := &scalars[i]
		all := have.Scalar[s.name]
		if s.amount > all-used.Scalar[s.name] {
			reasons = append(reasons, s.reason)
			never = never || s.amount > all
		}
	}
	switch {
	case len(reasons) == 0:
		return sdk.Fits()
	case never:
		return sdk.Never(reasons...)
	}
	return sdk.Unfit(reasons...)
}
