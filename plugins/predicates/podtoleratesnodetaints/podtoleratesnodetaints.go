// Package podtoleratesnodetaints is the predicate PodToleratesNodeTaints: a node is unfit
// when it has a NoSchedule or NoExecute taint that the pod does not tolerate
// (24.5 of the extended concepts).
package podtoleratesnodetaints

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch the predicate.
const Name = "PodToleratesNodeTaints"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) had untolerated taint(s)"

// New returns the predicate. It keeps no state and takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeTaint},
		{Kind: sdk.KindPod, Actions: sdk.ActionUpdatePodToleration},
	}}
}

func filterNodes(b *sdk.Batch) {
	r := sdk.Request{Pod: b.Pod}
	for k, n := range b.Nodes {
		if len(n.Taints) == 0 {
			continue
		}
		r.Node = n
		if v := filter(&r); !v.Fit() {
			b.Refuse(k, v)
		}
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	for i := range r.Node.Taints {
		taint := &r.Node.Taints[i]
		// PreferNoSchedule is a wish, which no predicate may enforce.
		if (taint.Effect == "NoSchedule" || taint.Effect == "NoExecute") && !r.Pod.Tolerates(taint) {
			return sdk.Unfit(Reason)
		}
	}
	return sdk.Fits()
}
