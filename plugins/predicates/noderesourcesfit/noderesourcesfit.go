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
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNode, Contract: contract.Three, Configure: p.configure, Prepare: p.prepare, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete | sdk.ActionUpdatePodScaleDown, Helps: frees},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeAllocatable, Helps: p.grows},
	}}
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

// filterNodes is filter, of which it asks about the nodes that may be unfit.
func filterNodes(b *sdk.Batch) {
	want := &b.Pod.Requests
	if len(b.State.([]scalar)) > 0 {
		b.Each(filter)
		return
	}
	r := sdk.Request{Pod: b.Pod, Cluster: b.Cluster, State: b.State}
	for k, n := range b.Nodes {
		have, used := &n.Allocatable, &n.Requested
		if used.Pods+1 > have.Pods || want.MilliCPU > 0 && want.MilliCPU > have.MilliCPU-used.MilliCPU ||
			want.Memory > 0 && want.Memory > have.Memory-used.Memory ||
			want.EphemeralStorage > 0 && want.EphemeralStorage > have.EphemeralStorage-used.EphemeralStorage {
			r.Node = n
			b.Refuse(k, filter(&r))
		}
	}
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

// frees reports whether a pod that went, or asks for less, asked for something that
// the pod asks for. Any that went counts: nodes have room for so many pods.
func frees(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	if e.NewPod == nil {
		return true
	}
	before, now, want := &e.OldPod.Requests, &e.NewPod.Requests, &pod.Requests
	if want.MilliCPU > 0 && before.MilliCPU > now.MilliCPU || want.Memory > 0 && before.Memory > now.Memory ||
		want.EphemeralStorage > 0 && before.EphemeralStorage > now.EphemeralStorage {
		return true
	}
	for name, amount := range want.Scalar {
		if amount > 0 && before.Scalar[name] > now.Scalar[name] {
			return true
		}
	}
	return false
}

// grows reports whether the pod would fit a node, empty, that was not there or has
// more of what the pod asks for than it had.
func (p *predicate) grows(c *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	empty := sdk.Node{Allocatable: e.NewNode.Allocatable}
	if !filter(&sdk.Request{Pod: pod, Node: &empty, Cluster: c, State: p.prepare(c, pod)}).Fit() {
		return false
	}
	if e.OldNode == nil {
		return true
	}
	before, now, want := &e.OldNode.Allocatable, &e.NewNode.Allocatable, &pod.Requests
	if now.Pods > before.Pods || want.MilliCPU > 0 && now.MilliCPU > before.MilliCPU || want.Memory > 0 && now.Memory > before.Memory ||
		want.EphemeralStorage > 0 && now.EphemeralStorage > before.EphemeralStorage {
		return true
	}
	for name, amount := range want.Scalar {
		if amount > 0 && now.Scalar[name] > before.Scalar[name] {
			return true
		}
	}
	return false
}
