// Package selectorspreadpriority is the priority SelectorSpreadPriority: pods
// of one service, replication controller or replica set spread over nodes and
// over zones (PRI-10).
package selectorspreadpriority

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch and weigh the priority.
const Name = "SelectorSpreadPriority"

// New returns the priority. It keeps no state and takes no configuration.
func New() sdk.Priority {
	return Over(Name, "Service", "ReplicationController", "ReplicaSet")
}

// Over returns a priority that spreads pods which objects of the kinds select.
// ServiceSpreadingPriority is the same over services alone (PRI-22).
//
// The raw score of a node is the number of its pods that a selector takes; it
// depends on that node alone, so that a binding makes the host ask about one
// node. Zones come in when the counts are projected to 0–10.
func Over(name string, kinds ...string) sdk.Priority {
	return sdk.Priority{
		Name: name, Scope: sdk.ScopeNode, Normalize: sdk.NormalizePlugin, Reads: kinds,
		Prepare: func(c *sdk.Cluster, pod *sdk.Pod) any { return selectors(c, pod, kinds) },
		Score: func(r *sdk.Request) int64 {
			list, ok := r.State.([]*sdk.Selector)
			if !ok {
				list = selectors(r.Cluster, r.Pod, kinds)
			}
			return count(list, r.Pod.Namespace, r.Node)
		},
		NormalizeFunc: project,
	}
}

// selectors merges what the objects in the pod's namespace that match it select
// (PRI-12 to PRI-16). None found is no failure, it adds nothing (PRI-15, ODD-29).
func selectors(c *sdk.Cluster, pod *sdk.Pod, kinds []string) []*sdk.Selector {
	var list []*sdk.Selector
	for _, kind := range kinds {
		c.Objects(kind, pod.Namespace, func(o *sdk.Object) bool {
			if o.Selector.Matches(pod.Labels) {
				list = append(list, o.Selector)
			}
			return true
		})
	}
	return list
}

// count is the number of pods of the namespace on the node that one of the
// selectors takes (PRI-16, PRI-19). A pod on its way out no longer serves.
func count(list []*sdk.Selector, namespace string, node *sdk.Node) int64 {
	if len(list) == 0 {
		return 0
	}
	var n int64
	for _, pod := range node.Pods {
		if pod.Namespace != namespace || pod.Terminating {
			continue
		}
		for _, selector := range list {
			if selector.Matches(pod.Labels) {
				n++
				break
			}
		}
	}
	return n
}

// project turns counts into scores (PRI-17, PRI-18, FIL-7): a third for the
// node and two thirds for its zone, whole numbers only at the end. Nodes
// without a zone are judged by themselves.
func project(_ *sdk.Cluster, _ *sdk.Pod, _ any, nodes []*sdk.Node, scores []int64) {
	var most int64
	for _, n := range scores {
		most = max(most, n)
	}
	if most == 0 { // nothing to spread away from, neither by node nor by zone
		for i := range scores {
			scores[i] = sdk.MaxScore
		}
		return
	}
	zones := make([]int, len(nodes)) // of each node, from 1; 0: none
	index := map[zone]int{}
	var totals []int64
	for i, node := range nodes {
		z, ok := zoneOf(node)
		if !ok {
			continue
		}
		k := index[z]
		if k == 0 {
			totals = append(totals, 0)
			k = len(totals)
			index[z] = k
		}
		zones[i] = k
		totals[k-1] += scores[i]
	}
	var mostInZone int64
	for _, total := range totals {
		mostInZone = max(mostInZone, total)
	}
	for i, n := range scores {
		if zones[i] == 0 {
			scores[i] = sdk.MaxScore * (most - n) / most
			continue
		}
		if mostInZone == 0 { // every zone is empty: full marks for the zone's part
			scores[i] = sdk.MaxScore * (most - n + 2*most) / (3 * most)
			continue
		}
		scores[i] = sdk.MaxScore * ((most-n)*mostInZone + 2*(mostInZone-totals[zones[i]-1])*most) / (3 * most * mostInZone)
	}
}

// zone is a failure zone within its region.
type zone struct{ region, zone string }

// zoneOf reads today's labels and those of the first releases (PRD-21).
func zoneOf(node *sdk.Node) (zone, bool) {
	z := zone{
		region: either(node.Labels, "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
		zone:   either(node.Labels, "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
	}
	return z, z != zone{}
}

func either(labels map[string]string, key, old string) string {
	if value, ok := labels[key]; ok {
		return value
	}
	return labels[old]
}
