// Package matchnodeselector is the predicate MatchNodeSelector: a node fits
// when its labels satisfy the pod's node selector and its required node
// affinity (PRD-28 to PRD-32). Both are about labels, never names (ODD-13),
// but for the field metadata.name that an affinity may state.
package matchnodeselector

import (
	"pintle.dev/pintle/plugins/predicates/affinityannotation"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the predicate.
const Name = "MatchNodeSelector"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) didn't match Pod's node affinity/selector"

// New returns the predicate. It keeps no state and takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNodeObject, Prepare: prepare, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel},
	}}
}

// demand is what one pod class asks for; unreadable stands for a broken
// affinity annotation, which no node can satisfy.
type demand struct {
	affinities []*sdk.NodeAffinity
	unreadable bool
}

func prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	affinities, err := affinityannotation.Affinities(pod)
	return &demand{affinities: affinities, unreadable: err != nil}
}

// filterNodes reads the labels that a selector names as columns: a look into the
// labels of each node takes ten times as long.
func filterNodes(b *sdk.Batch) {
	d := b.State.(*demand)
	if d.unreadable || len(d.affinities) > 0 {
		b.Each(filter)
		return
	}
	unfit := sdk.Unfit(Reason)
	for key, want := range b.Pod.NodeSelector {
		column := b.Cluster.Column(key)
		number := column.Number(want)
		for k, n := range b.Nodes {
			if number == 0 || column.Of(n) != number {
				b.Refuse(k, unfit)
			}
		}
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	for key, want := range r.Pod.NodeSelector {
		if have, ok := r.Node.Labels[key]; !ok || have != want {
			return sdk.Unfit(Reason)
		}
	}
	d, ok := r.State.(*demand)
	if !ok {
		d = prepare(r.Cluster, r.Pod).(*demand)
	}
	if d.unreadable {
		return sdk.Unfit(Reason)
	}
	for _, affinity := range d.affinities {
		if !affinity.MatchesRequired(r.Node) {
			return sdk.Unfit(Reason)
		}
	}
	return sdk.Fits()
}
