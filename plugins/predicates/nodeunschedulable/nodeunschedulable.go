// Package nodeunschedulable is the predicate NodeUnschedulable: a node that is
// cordoned takes only pods that tolerate the taint of it.
package nodeunschedulable

import (
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "NodeUnschedulable"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) were unschedulable"

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Contract: contract.Three, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeTaint, Helps: helps},
		sdk.OwnChange(sdk.ActionUpdatePodToleration),
	}}
}

// cordoned is what spec.unschedulable stands for, whether or not the node has the
// taint too.
var cordoned = sdk.Taint{Key: "node.kubernetes.io/unschedulable", Effect: "NoSchedule"}

func filterNodes(b *sdk.Batch) {
	for k, n := range b.Nodes {
		if n.Unschedulable && !b.Pod.Tolerates(&cordoned) {
			b.Refuse(k, sdk.Never(Reason))
		}
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	if r.Node.Unschedulable && !r.Pod.Tolerates(&cordoned) {
		return sdk.Never(Reason)
	}
	return sdk.Fits()
}

// helps reports whether a node came that is not cordoned, or ceased to be.
func helps(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
	return !e.NewNode.Unschedulable && (e.OldNode == nil || e.OldNode.Unschedulable)
}
