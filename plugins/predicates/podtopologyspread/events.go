package podtopologyspread

import "pintle.dev/pintle/sdk"

// events are those that can help a pod which the predicate refused: pods of its
// namespace that come, go or change their labels move the counts of domains, nodes
// the domains; a toleration the nodes that count.
func events() []sdk.Interest {
	return []sdk.Interest{
		{Kind: sdk.KindPod, Actions: sdk.ActionAdd | sdk.ActionUpdatePodLabel | sdk.ActionUpdatePodToleration | sdk.ActionDelete, Helps: samePlace},
		{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionDelete | sdk.ActionUpdateNodeLabel | sdk.ActionUpdateNodeTaint},
	}
}

func samePlace(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	return e.NewPod != nil && e.NewPod.Namespace == pod.Namespace || e.OldPod != nil && e.OldPod.Namespace == pod.Namespace
}
