// Package nodeaffinityprefilter is the pre-filter plugin NodeAffinityPreFilter,
// that part of kube-scheduler's NodeAffinity which looks for nodes by name: if each
// term of a pod's required node affinity names nodes, no other node is asked about.
package nodeaffinityprefilter

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch the plugin.
const Name = "NodeAffinityPreFilter"

// ReasonConflict is the message about a pod each term of which names two nodes at
// once.
const ReasonConflict = "pod affinity terms conflict"

// New returns the plugin. It takes no configuration.
func New() sdk.PreFilter {
	return sdk.PreFilter{Name: Name, Scope: sdk.ScopeNode, Narrow: narrow, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel},
	}}
}

func narrow(c *sdk.Cluster, pod *sdk.Pod) ([]*sdk.Node, sdk.Status) {
	names, ok := named(pod.NodeAffinity)
	if !ok {
		return nil, sdk.Skipped()
	}
	if len(names) == 0 {
		return nil, sdk.RefuseForGood(ReasonConflict)
	}
	nodes := []*sdk.Node{}
	for n := range c.Nodes {
		if names[n.Name] {
			nodes = append(nodes, n)
		}
	}
	return nodes, sdk.Status{}
}

// named is the set of nodes that the terms name; false where one of them names none.
func named(affinity *sdk.NodeAffinity) (map[string]bool, bool) {
	if affinity == nil || len(affinity.Required) == 0 {
		return nil, false
	}
	all := map[string]bool{}
	for i := range affinity.Required {
		var mine map[string]bool // of one term: expressions are ANDed
		for k := range affinity.Required[i].MatchFields {
			r := &affinity.Required[i].MatchFields[k]
			if r.Key != "metadata.name" || r.Operator != "In" {
				continue
			}
			both := map[string]bool{}
			for _, name := range r.Values {
				if mine == nil || mine[name] {
					both[name] = true
				}
			}
			mine = both
		}
		if mine == nil {
			return nil, false
		}
		for name := range mine {
			all[name] = true
		}
	}
	return all, true
}
