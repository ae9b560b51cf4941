package interpodaffinity

import (
	"pintle.dev/pintle/plugins/predicates/podaffinity"
	"pintle.dev/pintle/sdk"
)

// events are those that can help a pod which the predicate refused: a pod that it
// needs comes, one that it or that refuses it goes, labels change who is meant, and
// nodes come or are in other domains.
func events() []sdk.Interest {
	return []sdk.Interest{
		{Kind: sdk.KindPod, Actions: sdk.ActionAdd | sdk.ActionUpdatePodLabel | sdk.ActionDelete, Helps: helps},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel, Helps: helpsNode},
	}
}

func helps(c *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	sums := podaffinity.Counts(c)
	need, hate := required(c, pod.PodAffinity, &sums), required(c, pod.PodAntiAffinity, &sums)
	switch {
	case e.OldPod != nil && e.NewPod != nil:
		return !all(need, e.OldPod) && all(need, e.NewPod) || all(hate, e.OldPod) && !all(hate, e.NewPod)
	case e.NewPod != nil:
		return all(need, e.NewPod)
	case e.OldPod == nil:
		return true
	}
	return all(hate, e.OldPod) || refusedBy(c, pod, e.OldPod)
}

// refusedBy reports whether a term of another pod's anti-affinity selects the pod.
func refusedBy(c *sdk.Cluster, pod, other *sdk.Pod) bool {
	if other.PodAntiAffinity == nil {
		return false
	}
	subject := podaffinity.NewSubject(c, pod)
	for i := range other.PodAntiAffinity.Required {
		if subject.Selected(&other.PodAntiAffinity.Required[i]) {
			return true
		}
	}
	return false
}

// helpsNode: a node is new, or in another domain of a term.
func helpsNode(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	if e.OldNode == nil || e.NewNode == nil {
		return true
	}
	// Of pods on nodes that refuse the pod, the keys are not known here.
	if pod.PodAffinity == nil && pod.PodAntiAffinity == nil {
		return true
	}
	for _, a := range []*sdk.PodAffinity{pod.PodAffinity, pod.PodAntiAffinity} {
		if a == nil {
			continue
		}
		for i := range a.Required {
			key := a.Required[i].TopologyKey
			before, had := e.OldNode.Labels[key]
			after, has := e.NewNode.Labels[key]
			if before != after || had != has {
				return true
			}
		}
	}
	return false
}
