// Package nodename is the predicate NodeName: a pod whose spec names a node fits
// that node alone.
package nodename

import (
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "NodeName"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) didn't match the requested node name"

// New returns the predicate. It takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Contract: contract.Three, Idle: idle, Filter: filter, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
	}}
}

// idle: pods that wait name no node as a rule.
func idle(pod *sdk.Pod, _ any) bool { return pod.NodeName == "" }

func filter(r *sdk.Request) sdk.Verdict {
	if r.Pod.NodeName != "" && r.Pod.NodeName != r.Node.Name {
		return sdk.Never(Reason)
	}
	return sdk.Fits()
}
