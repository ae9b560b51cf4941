// Package hostname is the predicate HostName: a pod that names a host fits
// that host only (PRD-33).
package hostname

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch the predicate.
const Name = "HostName"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) didn't match the requested node name"

// New returns the predicate. The name a pod asks for is spec.nodeName (ODD-27).
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
	}}
}

func filterNodes(b *sdk.Batch) {
	if b.Pod.NodeName != "" {
		b.Each(filter)
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	if r.Pod.NodeName != "" && r.Pod.NodeName != r.Node.Name {
		return sdk.Unfit(Reason)
	}
	return sdk.Fits()
}
