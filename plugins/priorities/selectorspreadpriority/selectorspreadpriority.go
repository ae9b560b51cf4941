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
		Prepare: func(c *sdk.Cluster, pod *sdk.Pod) any {
			return &state{selectors: selectors(c, pod, kinds), ids: map[zone]int{}}
		},
		Score: func(r *sdk.Request) int64 {
			return count(r.State.(*state).selectors, r.Pod.Namespace, r.Node)
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

// state is what is prepared for a class of pods.
type state struct {
	selectors []*sdk.Selector
	// zones remembers each node's zone by index. A node that changes is another
	// *sdk.Node, so the pointer tells whether it still holds: reading four labels
	// of a thousand nodes for each pod took most of a decision.
	zones  []known
	ids    map[zone]int
	totals []int64 // of the zones, by id
}

type known struct {
	node *sdk.Node
	id   int // -1: none
}

// zone returns the id of a node's zone, from 0, or -1.
func (s *state) zone(node *sdk.Node) int {
	for int(node.Index) >= len(s.zones) {
		s.zones = append(s.zones, known{})
	}
	k := &s.zones[node.Index]
	if k.node == node {
		return k.id
	}
	k.node, k.id = node, -1
	if z, ok := zoneOf(node); ok {
		id, seen := s.ids[z]
		if !seen {
			id = len(s.ids)
			s.ids[z] = id
			s.totals = append(s.totals, 0)
		}
		k.id = id
	}
	return k.id
}

// project turns counts into scores (PRI-17, PRI-18, FIL-7): a third for the
// node and two thirds for its zone, whole numbers only at the end. Nodes
// without a zone are judged by themselves.
func project(_ *sdk.Cluster, _ *sdk.Pod, prepared any, nodes []*sdk.Node, scores []int64) {
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
	s := prepared.(*state)
	clear(s.totals)
	for i, node := range nodes {
		if id := s.zone(node); id >= 0 {
			s.totals[id] += scores[i]
		}
	}
	var mostInZone int64
	for _, total := range s.totals {
		mostInZone = max(mostInZone, total)
	}
	for i, node := range nodes {
		n := scores[i]
		id := s.zones[node.Index].id
		switch {
		case id < 0:
			scores[i] = sdk.MaxScore * (most - n) / most
		case mostInZone == 0: // every zone is empty: full marks for the zone's part
			scores[i] = sdk.MaxScore * (most - n + 2*most) / (3 * most)
		default:
			scores[i] = sdk.MaxScore * ((most-n)*mostInZone + 2*(mostInZone-s.totals[id])*most) / (3 * most * mostInZone)
		}
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
