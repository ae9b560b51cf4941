package topologyspread

import (
	"pintle.dev/pintle/plugins/predicates/nodeselector"
	"pintle.dev/pintle/plugins/predicates/tainttoleration"
	"pintle.dev/pintle/plugins/predicates/topology"
	"pintle.dev/pintle/sdk"
)

// Constraint is one constraint of a class with what it counts. Domains are numbers
// of Column; 0 is of nodes without the label.
type Constraint struct {
	MaxSkew int64
	Column  *sdk.Column
	// Pods are, by domain, the pods that count.
	Pods []int64
	// Full says, by domain, that one more pod like the class's would be too many.
	// It is kept of hard constraints only.
	Full []bool
	// OnNode is, by node index, the pods that match, whether or not the node
	// counts. It is kept of soft constraints over hostnames only.
	OnNode []int32

	key        string
	minDomains int
	self       int64 // 1 if the pod itself is one of those that count
	hard       bool
	single     bool // OnNode is kept
	affinity   bool // nodes that the pod's node affinity leaves out do not count
	taints     bool // nor those whose taints it does not tolerate
	pods       selectors
	none       bool    // no pod counts, though the selector takes all
	nodes      []int32 // by domain: those whose pods count; without one it is no domain
	least      least
	floor      int64 // what Full was measured by
	changed    topology.Marks
	touched    []uint32 // domains whose pods or nodes changed since Full was brought up to date
}

// Spread is what a class knows of the constraints of one action.
type Spread struct {
	Constraints []Constraint
	// All: nodes without the label of one constraint count for none.
	All bool

	pod      *sdk.Pod
	required *nodeselector.Required
	moved    []uint32
}

// New counts the cluster for the constraints of an action; nil where the pod has
// none.
func New(c *sdk.Cluster, pod *sdk.Pod, defaults *Defaults, action string) *Spread {
	s := &Spread{pod: pod, All: true}
	if len(pod.TopologySpread) > 0 {
		for i := range pod.TopologySpread {
			if t := &pod.TopologySpread[i]; t.WhenUnsatisfiable == action {
				s.add(c, t, own(t, pod))
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
			s.add(c, t, of)
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
	s.settle()
	s.Moved()
	return s
}

func (s *Spread) add(cluster *sdk.Cluster, t *sdk.TopologySpreadConstraint, pods selectors) {
	c := Constraint{
		MaxSkew: int64(t.MaxSkew), minDomains: max(int(t.MinDomains), 1), Column: cluster.Column(t.TopologyKey), key: t.TopologyKey,
		affinity: t.NodeAffinityPolicy != "Ignore", taints: t.NodeTaintsPolicy == "Honor",
		pods: pods, none: pods.empty(), hard: t.WhenUnsatisfiable == DoNotSchedule,
	}
	c.single = !c.hard && t.TopologyKey == Hostname
	if pods.matches(s.pod.Labels) {
		c.self = 1
	}
	s.Constraints = append(s.Constraints, c)
}

// Follow and Moved are those of a plugin whose state is a *Spread, or nil where the
// pod has no constraint.
func Follow(_ *sdk.Cluster, _ *sdk.Pod, state any, changes []sdk.Change) any {
	if s := state.(*Spread); s != nil {
		s.Follow(changes)
	}
	return state
}

// Idle: the pod has no constraint.
func Idle(_ *sdk.Pod, state any) bool { return state.(*Spread) == nil }

// Moved lists the nodes that the plugin answers otherwise about.
func Moved(state any) (nodes []uint32, all bool) {
	if s := state.(*Spread); s != nil {
		return s.Moved(), false
	}
	return nil, false
}

// Follow takes changes in.
func (s *Spread) Follow(changes []sdk.Change) {
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
	s.settle()
}

// Moved lists the nodes about which the class has to be asked again since it was
// called last: of hard constraints those whose domain became full or has room
// again, of soft ones those whose pods changed. It is good until Follow.
func (s *Spread) Moved() []uint32 {
	out := s.moved
	for i := range s.Constraints {
		out = s.Constraints[i].changed.Nodes(s.Constraints[i].Column, out)
	}
	s.moved = out[:0]
	return out
}

// place is what of a node decides where it counts, looked up once for all
// constraints: a pod may have thousands.
type place struct {
	node                         *sdk.Node
	labelled, required, tolerant bool
}

func (s *Spread) at(node *sdk.Node) place {
	p := place{node: node, labelled: true}
	affinity, taints := false, false
	for i := range s.Constraints {
		c := &s.Constraints[i]
		if s.All && c.Column.Of(node) == 0 {
			return place{node: node}
		}
		affinity, taints = affinity || c.affinity, taints || c.taints
	}
	p.required = !affinity || s.required.Matches(node)
	p.tolerant = !taints || tainttoleration.Tolerated(s.pod, node)
	return p
}

// domain is where a node counts for a constraint; 0 where it does not.
func (c *Constraint) domain(p *place) uint32 {
	if !p.labelled || c.affinity && !p.required || c.taints && !p.tolerant {
		return 0
	}
	domain := c.Column.Of(p.node)
	if n := int(domain) + 1; n > len(c.Pods) {
		n = max(n, c.Column.Len())
		c.Pods, c.nodes = topology.Grown(c.Pods, n), topology.Grown(c.nodes, n)
	}
	return domain
}

// node counts a node, or takes it away.
func (s *Spread) node(node *sdk.Node, sign int32) {
	at := s.at(node)
	for i := range s.Constraints {
		c := &s.Constraints[i]
		if c.single {
			c.OnNode = topology.Grown(c.OnNode, int(node.Index)+1)
		}
		if !c.hard {
			s.moved = append(s.moved, node.Index)
		}
		domain := c.domain(&at)
		if domain == 0 {
			continue
		}
		before := c.nodes[domain]
		c.nodes[domain] += sign
		switch {
		case before == 0:
			c.least.add(c.Pods[domain])
		case c.nodes[domain] == 0:
			c.least.remove(c.Pods[domain])
		}
		c.touched = append(c.touched, domain)
	}
}

// occupants counts the pods of a node.
func (s *Spread) occupants(node *sdk.Node) {
	at := s.at(node)
	for i := range s.Constraints {
		c, n := &s.Constraints[i], int64(0)
		for _, pod := range node.Pods {
			if s.counts(c, pod) {
				n++
			}
		}
		if n != 0 {
			s.move(c, &at, n)
		}
	}
}

// occupant counts a pod on a node, or takes it away.
func (s *Spread) occupant(node *sdk.Node, pod *sdk.Pod, sign int64) {
	at, known := place{}, false
	for i := range s.Constraints {
		if c := &s.Constraints[i]; s.counts(c, pod) {
			if !known {
				at, known = s.at(node), true
			}
			s.move(c, &at, sign)
		}
	}
}

func (s *Spread) counts(c *Constraint, pod *sdk.Pod) bool {
	return !c.none && pod.Namespace == s.pod.Namespace && !pod.Terminating && c.pods.matches(pod.Labels)
}

// move adds to the pods of a node.
func (s *Spread) move(c *Constraint, at *place, n int64) {
	if c.single {
		c.OnNode[at.node.Index] += int32(n)
	}
	if !c.hard {
		s.moved = append(s.moved, at.node.Index)
	}
	if domain := c.domain(at); domain != 0 {
		before := c.Pods[domain]
		c.Pods[domain] += n
		c.least.move(before, c.Pods[domain])
		c.touched = append(c.touched, domain)
	}
}

// settle brings up to date which domains are full.
func (s *Spread) settle() {
	for i := range s.Constraints {
		c := &s.Constraints[i]
		if c.hard {
			// Where there are too few domains, as if one had no pods.
			floor := int64(0)
			if c.least.domains >= c.minDomains {
				floor = int64(c.least.value)
			}
			c.Full = topology.Grown(c.Full, len(c.Pods))
			if floor != c.floor {
				c.floor = floor
				for domain := range c.Pods {
					c.fill(uint32(domain))
				}
			} else {
				for _, domain := range c.touched {
					c.fill(domain)
				}
			}
		}
		c.touched = c.touched[:0]
	}
}

func (c *Constraint) fill(domain uint32) {
	if full := c.Pods[domain]+c.self-c.floor > c.MaxSkew; full != c.Full[domain] {
		c.Full[domain] = full
		c.changed.Add(domain)
	}
}

// IsFull reports whether a domain, which need not be one whose nodes count, is full.
func (c *Constraint) IsFull(domain uint32) bool {
	if int(domain) < len(c.Full) {
		return c.Full[domain]
	}
	return c.self-c.floor > c.MaxSkew
}
