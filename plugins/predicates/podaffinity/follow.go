package podaffinity

import "pintle.dev/pintle/sdk"

// Counter is what a class knows of the pods on nodes.
type Counter interface {
	// Count adds a pod on a node, or takes it away (sign -1).
	Count(node *sdk.Node, pod *sdk.Pod, sign int64)
}

// CountThere counts the pods that are there: all of them, or those with affinity or
// anti-affinity, where the class has no terms that select others.
func CountThere(c *sdk.Cluster, all bool, to Counter) {
	if !all {
		for node, pod := range c.AffinePods {
			to.Count(node, pod, 1)
		}
		return
	}
	for node := range c.Nodes {
		for _, pod := range node.Pods {
			to.Count(node, pod, 1)
		}
	}
}

// CountChanges counts the pods that came and went. Pods of a node that changes are
// told of as removed and added.
func CountChanges(changes []sdk.Change, to Counter) {
	for i := range changes {
		switch change := &changes[i]; change.Kind {
		case sdk.PodAdded:
			to.Count(change.Node, change.Pod, 1)
		case sdk.PodRemoved:
			to.Count(change.Node, change.Pod, -1)
		}
	}
}
