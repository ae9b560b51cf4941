// Package checknodeunschedulable is the predicate CheckNodeUnschedulable: a cordoned node
// takes only pods that tolerate it.
package checknodeunschedulable

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch the predicate.
const Name = "CheckNodeUnschedulable"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) were unschedulable"

// cordon is the taint that spec.unschedulable stands for.
var cordon = sdk.Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}

// New returns the predicate. It keeps no state and takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeTaint},
		{Kind: sdk.KindPod, Actions: sdk.ActionUpdatePodToleration},
	}}
}

func filterNodes(b *sdk.Batch) {
	for k, n := range b.Nodes {
		if n.Unschedulable && !b.Pod.Tolerates(&cordon) {
			b.Refuse(k, sdk.Unfit(Reason))
		}
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	if r.Node.Unschedulable && !r.Pod.Tolerates(&cordon) {
		return sdk.Unfit(Reason)
	}
	return sdk.Fits()
}
