package nodeaffinity

import (
	"pintle.dev/pintle/plugins/predicates/nodeselector"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "NodeAffinity"

// The reasons that a FailedScheduling event counts.
const (
	Reason         = "node(s) didn't match Pod's node affinity/selector"
	ReasonEnforced = "node(s) didn't match scheduler-enforced node affinity"
)

type predicate struct{ added *nodeselector.Required }

// New returns the predicate, with nothing added until it is configured.
func New() sdk.Predicate {
	p := &predicate{}
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Contract: contract.Three, Configure: p.configure, Prepare: prepare, Idle: p.idle, Filter: p.filter, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel, Helps: p.helps},
	}}
}

func (p *predicate) configure(data []byte) error {
	args, err := ParseArgs(data)
	p.added = nodeselector.New(args.AddedAffinity.Affinity())
	return err
}

func prepare(_ *sdk.Cluster, pod *sdk.Pod) any { return nodeselector.Of(pod) }

func (p *predicate) idle(_ *sdk.Pod, state any) bool {
	return p.added == nil && state.(*nodeselector.Required) == nil
}

func (p *predicate) filter(r *sdk.Request) sdk.Verdict {
	if !p.added.Matches(r.Node) {
		return sdk.Never(ReasonEnforced)
	}
	if !r.State.(*nodeselector.Required).Matches(r.Node) {
		return sdk.Never(Reason)
	}
	return sdk.Fits()
}

// helps reports whether a node is selected that was not there or not selected before.
func (p *predicate) helps(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	required := nodeselector.Of(pod)
	if !p.added.Matches(e.NewNode) || !required.Matches(e.NewNode) {
		return false
	}
	return e.OldNode == nil || !required.Matches(e.OldNode)
}
