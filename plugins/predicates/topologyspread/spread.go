package topologyspread

import (
	"pintle.dev/pintle/plugins/predicates/nodeselector"
	"pintle.dev/pintle/plugins/predicates/tainttoleration"
	"pintle.dev/pintle/plugins/predicates/topology"
	"pintle.dev/pintle/sdk"
)

// Constraint is one constraint of a class with what it counts.
type Constraint struct {
	MaxSkew    int64
	MinDomains int
	// Self is 1 if the pod itself is one of those that count.
	Self  int64
	Table *topology.Table
	// Pods and Nodes are, by domain, the pods that count and the nodes whose pods
	// do. A domain without such nodes is none.
	Pods  []int64
	Nodes []int32
	// OnNode is, by node index, the pods that match, whether or not the node
	// counts. It is kept of soft constraints over hostnames only.
	OnNode []int32

	hostname       bool
	affinity       bool // nodes that the pod's node affinity leaves out do not count
	taints         bool // nor those whose taints it does not tolerate
	pods           selectors
	none           bool // no pod counts, though the selector takes all
	least          least
	wantsNodeCount bool
}

// Spread is what a class knows of the constraints of one action.
type Spread struct {
	Constraints []Constraint
	// All: nodes without the label of one constraint count for none.
	All bool

	pod      *sdk.Pod
	required *nodeselector.Required
}

// New counts the cluster for the constraints of an action; nil where the pod has
// none.
func New(c *sdk.Cluster, pod *sdk.Pod, tables *topology.Tables, defaults *Defaults, action string) *Spread {
	s := &Spread{pod: pod, All: true}
	if len(pod.TopologySpread) > 0 {
		for i := range pod.TopologySpread {
			if t := &pod.TopologySpread[i]; t.WhenUnsatisfiable == action {
				s.add(t, own(t, pod), tables)
			}
		}
	} else {
		s.All = !defaults.System
		var of selectors
		for i := range defaults.Constraints {
			t := &defaults.Constraints[i]
			if t.WhenUnsatisfiable != action {
				continue
			}
			if of == nil {
				if of = together(c, pod); of.empty() {
					return nil
				}
			}
			s.add(t, of, tables)
		}
	}
	if len(s.Constraints) == 0 {
		return nil
	}
	s.required = nodeselector.Of(pod)
	for node := range c.Nodes {
		s.node(node, 1)
		s.occupants(node)
	}
	return s
}

func (s *Spread) add(t *sdk.TopologySpreadConstraint, pods selectors, tables *topology.Tables) {
	c := Constraint{
		MaxSkew: int64(t.MaxSkew), MinDomains: max(int(t.MinDomains), 1), Table: tables.Of(t.TopologyKey),
		affinity: t.NodeAffinityPolicy != "Ignore", taints: t.NodeTaintsPolicy == "Honor",
		pods: pods, none: pods.empty(), hostname: t.TopologyKey == Hostname,
	}
	c.wantsNodeCount = c.hostname && t.WhenUnsatisfiable == ScheduleAnyway
	if pods.matches(s.pod.Labels) {
		c.Self = 1
	}
	s.Constraints = append(s.Constraints, c)
}

// Follow takes changes in; false asks for New.
func (s *Spread) Follow(changes []sdk.Change) bool {
	for i := range s.Constraints {
		if s.Constraints[i].Table.Crowded() {
			return false
		}
	}
	for i := range changes {
		switch change := &changes[i]; change.Kind {
		case sdk.PodAdded:
			s.occupant(change.Node, change.Pod, 1)
		case sdk.PodRemoved:
			s.occupant(change.Node, change.Pod, -1)
		case sdk.NodeSet:
			if change.Old != nil {
				s.node(change.Old, -1)
			}
			s.node(change.Node, 1)
		case sdk.NodeRemoved:
			s.node(change.Node, -1)
		}
	}
	return true
}

// node counts a node, or takes it away.
func (s *Spread) node(node *sdk.Node, sign int32) {
	for i := range s.Constraints {
		c := &s.Constraints[i]
		if c.wantsNodeCount {
			c.OnNode = topology.Grown(c.OnNode, int(node.Index)+1)
		}
		domain := s.domain(c, node)
		if domain == topology.None {
			continue
		}
		before := c.Nodes[domain]
		c.Nodes[domain] += sign
		switch {
		case before == 0:
			c.least.add(c.Pods[domain])
		case c.Nodes[domain] == 0:
			c.least.remove(c.Pods[domain])
		}
	}
}

// domain is where a node counts for a constraint; None where it does not.
func (s *Spread) domain(c *Constraint, node *sdk.Node) int32 {
	if s.All {
		for i := range s.Constraints {
			if _, ok := node.Labels[s.Constraints[i].Table.Key]; !ok {
				return topology.None
			}
		}
	}
	if c.affinity && !s.required.Matches(node) || c.taints && !tainttoleration.Tolerated(s.pod, node) {
		return topology.None
	}
	domain := c.Table.Of(node)
	if n := c.Table.Len(); n > len(c.Pods) {
		c.Pods, c.Nodes = topology.Grown(c.Pods, n), topology.Grown(c.Nodes, n)
	}
	return domain
}

// occupants counts the pods of a node.
func (s *Spread) occupants(node *sdk.Node) {
	for i := range s.Constraints {
		c, n := &s.Constraints[i], int64(0)
		for _, pod := range node.Pods {
			if s.counts(c, pod) {
				n++
			}
		}
		if n != 0 {
			s.move(c, node, n)
		}
	}
}

// occupant counts a pod on a node, or takes it away.
func (s *Spread) occupant(node *sdk.Node, pod *sdk.Pod, sign int64) {
	for i := range s.Constraints {
		if c := &s.Constraints[i]; s.counts(c, pod) {
			s.move(c, node, sign)
		}
	}
}

func (s *Spread) counts(c *Constraint, pod *sdk.Pod) bool {
	return !c.none && pod.Namespace == s.pod.Namespace && !pod.Terminating && c.pods.matches(pod.Labels)
}

// move adds to the pods of a node.
func (s *Spread) move(c *Constraint, node *sdk.Node, n int64) {
	if c.wantsNodeCount {
		c.OnNode[node.Index] += int32(n)
	}
	if domain := s.domain(c, node); domain != topology.None {
		before := c.Pods[domain]
		c.Pods[domain] += n
		c.least.move(before, c.Pods[domain])
	}
}

// Least is the number of pods in the domain with the fewest; 0 where there are
// fewer domains than the constraint wants.
func (c *Constraint) Least() int64 {
	if c.least.domains < c.MinDomains {
		return 0
	}
	return int64(c.least.value)
}
