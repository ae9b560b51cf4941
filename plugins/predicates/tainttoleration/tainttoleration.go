// Package tainttoleration is the predicate TaintToleration: a node is unfit when
// it has a NoSchedule or NoExecute taint that the pod does not tolerate.
package tainttoleration

import (
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "TaintToleration"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) had untolerated taint(s)"

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Contract: contract.Three, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeTaint, Helps: helps},
		sdk.OwnChange(sdk.ActionUpdatePodToleration),
	}}
}

func filterNodes(b *sdk.Batch) {
	for k, n := range b.Nodes {
		if len(n.Taints) > 0 && !Tolerated(b.Pod, n) {
			b.Refuse(k, sdk.Never(Reason))
		}
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	if !Tolerated(r.Pod, r.Node) {
		return sdk.Never(Reason)
	}
	return sdk.Fits()
}

// Tolerated reports whether a pod tolerates each taint of a node that keeps pods
// away.
func Tolerated(pod *sdk.Pod, node *sdk.Node) bool {
	for i := range node.Taints {
		taint := &node.Taints[i]
		// PreferNoSchedule is a wish: TaintTolerationScore is about it.
		if (taint.Effect == "NoSchedule" || taint.Effect == "NoExecute") && !pod.Tolerates(taint) {
			return false
		}
	}
	return true
}

// helps reports whether the pod tolerates a node's taints that was not there, or
// whose taints it did not tolerate before.
func helps(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	return Tolerated(pod, e.NewNode) && (e.OldNode == nil || !Tolerated(pod, e.OldNode))
}
