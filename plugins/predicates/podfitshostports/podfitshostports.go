// Package podfitshostports is the predicate PodFitsHostPorts: a node is unfit
// when a host port that the pod wants is already taken there (PRD-1).
package podfitshostports

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch the predicate.
const Name = "PodFitsHostPorts"

// Reason is what a FailedScheduling event counts.
const Reason = "node(s) didn't have free ports for the requested pod ports"

// New returns the predicate. It keeps no state and takes no configuration.
func New() sdk.Predicate {
	return sdk.Predicate{Name: Name, Scope: sdk.ScopeNode, Prepare: prepare, Filter: filter, FilterNodes: filterNodes, Events: []sdk.Interest{
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd},
		{Kind: sdk.KindPod, Actions: sdk.ActionDelete},
	}}
}

// prepare collects the wanted ports once a class (PRD-2).
func prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	return ports(pod)
}

// ports is the set of valid host ports of a pod. The key is the number alone:
// protocol and host address take no part (PRD-6), and 0 is no port (PRD-7).
func ports(pod *sdk.Pod) map[int32]bool {
	var set map[int32]bool
	for i := range pod.HostPorts {
		if p := pod.HostPorts[i].Port; p >= 1 && p <= 65535 {
			if set == nil {
				set = make(map[int32]bool, len(pod.HostPorts))
			}
			set[p] = true
		}
	}
	return set
}

func filterNodes(b *sdk.Batch) {
	if len(b.State.(map[int32]bool)) > 0 {
		b.Each(filter)
	}
}

func filter(r *sdk.Request) sdk.Verdict {
	wanted, ok := r.State.(map[int32]bool)
	if !ok {
		wanted = ports(r.Pod)
	}
	if len(wanted) == 0 {
		return sdk.Fits()
	}
	for _, pod := range r.Node.Pods {
		for i := range pod.HostPorts {
			if wanted[pod.HostPorts[i].Port] {
				return sdk.Unfit(Reason)
			}
		}
	}
	return sdk.Fits()
}
