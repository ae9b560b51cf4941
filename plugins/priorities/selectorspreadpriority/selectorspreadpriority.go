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
			return &state{selectors: selectors(c, pod, kinds), zones: map[zone]int32{}}
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
	// nodes and ids remember the last question and each node's zone in it. A node
	// that changes is another *sdk.Node, so the pointers tell what still holds:
	// reading the labels of a thousand nodes took most of a decision.
	nodes []*sdk.Node
	ids   []int32 // -1: no zone

	zones  map[zone]int32
	totals []int64 // of the zones, by id
	scores []int64 // by zone, from none on, and count
}

// of returns the zone of each node, parallel to nodes: from 0, or -1.
func (s *state) of(nodes []*sdk.Node) []int32 {
	for len(s.nodes) < len(nodes) {
		s.nodes, s.ids = append(s.nodes, nil), append(s.ids, -1)
	}
	remembered, ids := s.nodes[:len(nodes)], s.ids[:len(nodes)]
	for i, node := range nodes {
		if remembered[i] != node {
			remembered[i], ids[i] = node, s.id(node)
		}
	}
	return ids
}

func (s *state) id(node *sdk.Node) int32 {
	z, ok := zoneOf(node)
	if !ok {
		return -1
	}
	id, seen := s.zones[z]
	if !seen {
		id = int32(len(s.zones))
		s.zones[z] = id
		s.totals = append(s.totals, 0)
	}
	return id
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
	ids := s.of(nodes)
	totals := s.totals
	clear(totals)
	for i, id := range ids {
		if id >= 0 {
			totals[id] += scores[i]
		}
	}
	var mostInZone int64
	for _, total := range totals {
		mostInZone = max(mostInZone, total)
	}
	// Few counts and zones make few different scores; a division in WASM costs
	// more than a look into a table.
	width := most + 1
	table := s.scores[:0]
	if width*int64(len(totals)+1) <= int64(len(nodes)) {
		for id := -1; id < len(totals); id++ {
			for n := range width {
				table = append(table, s.score(id, n, most, mostInZone))
			}
		}
		s.scores = table
		for i, id := range ids {
			scores[i] = table[int64(id+1)*width+scores[i]]
		}
		return
	}
	for i, id := range ids {
		scores[i] = s.score(int(id), scores[i], most, mostInZone)
	}
}

// score is the formula of FIL-7 for a node with n pods in the zone id.
func (s *state) score(id int, n, most, mostInZone int64) int64 {
	switch {
	case id < 0:
		return sdk.MaxScore * (most - n) / most
	case mostInZone == 0: // every zone is empty: full marks for the zone's part
		return sdk.MaxScore * (most - n + 2*most) / (3 * most)
	}
	return sdk.MaxScore * ((most-n)*mostInZone + 2*(mostInZone-s.totals[id])*most) / (3 * most * mostInZone)
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
