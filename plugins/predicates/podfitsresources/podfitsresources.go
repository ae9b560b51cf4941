// Package podfitsresources is the predicate PodFitsResources: what the pods of
// a node request, and the pod with them, may not exceed what the node has
// (PRD-8). Requests count, usage never does (PRD-10).
package podfitsresources

import (
	"encoding/json"
	"fmt"
	"slices"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the predicate.
const Name = "PodFitsResources"

// Config is the predicate's configuration.
type Config struct {
	// Bound says which of a node's two amounts limits pods, CPU, memory and
	// ephemeral storage: "capacity" (the default, PRD-11) or "allocatable",
	// which leaves out what the node keeps for itself. Extended resources are
	// always bound by allocatable.
	Bound string `json:"bound"`
	// IgnoredResources are extended resources that something else checks, such as
	// an extender that manages them.
	IgnoredResources []string `json:"ignoredResources,omitempty"`
}

type predicate struct {
	allocatable bool
	ignored     []string
}

// New returns the predicate, bound by capacity until it is configured.
func New() sdk.Predicate {
	p := &predicate{}
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNode, Configure: p.configure, Filter: p.filter, FilterNodes: p.filterNodes, Events: []sdk.Interest{
		// Of the capacity, which may be the bound, no event of its own tells.
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdate},
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete | sdk.ActionUpdatePodScaleDown},
	}}
}

func (p *predicate) configure(data []byte) error {
	config := Config{Bound: "capacity"}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("configuration of %s: %w", Name, err)
		}
	}
	p.ignored = config.IgnoredResources
	switch config.Bound {
	case "capacity", "":
		p.allocatable = false
	case "allocatable":
		p.allocatable = true
	default:
		return fmt.Errorf("configuration of %s: bound %q: use capacity or allocatable", Name, config.Bound)
	}
	return nil
}

// filterNodes looks closer at nodes that may lack something alone.
func (p *predicate) filterNodes(b *sdk.Batch) {
	want := &b.Pod.Requests
	if len(want.Scalar) > 0 || want.EphemeralStorage > 0 {
		b.Each(p.filter)
		return
	}
	r := sdk.Request{Pod: b.Pod, Cluster: b.Cluster}
	cpu, memory, allocatable := want.MilliCPU, want.Memory, p.allocatable
	for k, n := range b.Nodes {
		bound := &n.Capacity
		if allocatable {
			bound = &n.Allocatable
		}
		used := &n.Requested
		if used.Pods < bound.Pods && (cpu <= 0 || cpu <= bound.MilliCPU-used.MilliCPU) && (memory <= 0 || memory <= bound.Memory-used.Memory) {
			continue
		}
		r.Node = n
		b.Refuse(k, p.filter(&r))
	}
}

func (p *predicate) filter(r *sdk.Request) sdk.Verdict {
	node, want := r.Node, &r.Pod.Requests
	bound := &node.Capacity
	if p.allocatable {
		bound = &node.Allocatable
	}
	used := &node.Requested
	var reasons []string
	if used.Pods+1 > bound.Pods {
		reasons = append(reasons, "Too many pods")
	}
	// A resource that the pod does not ask for is not checked, so that a node
	// that shrank still takes pods that need nothing of it (as 1.36 does).
	if want.MilliCPU > 0 && want.MilliCPU > bound.MilliCPU-used.MilliCPU {
		reasons = append(reasons, "Insufficient cpu")
	}
	if want.Memory > 0 && want.Memory > bound.Memory-used.Memory {
		reasons = append(reasons, "Insufficient memory")
	}
	if want.EphemeralStorage > 0 && want.EphemeralStorage > bound.EphemeralStorage-used.EphemeralStorage {
		reasons = append(reasons, "Insufficient ephemeral-storage")
	}
	if len(want.Scalar) > 0 {
		first := len(reasons)
		for name, amount := range want.Scalar {
			if amount > 0 && !slices.Contains(p.ignored, name) && amount > node.Allocatable.Scalar[name]-used.Scalar[name] {
				reasons = append(reasons, "Insufficient "+name)
			}
		}
		slices.Sort(reasons[first:]) // a map has no order, an answer has
	}
	if len(reasons) > 0 {
		return sdk.Unfit(reasons...)
	}
	return sdk.Fits()
}
