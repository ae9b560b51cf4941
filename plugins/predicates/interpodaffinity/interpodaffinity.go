// Package interpodaffinity is the predicate InterPodAffinity: a node is unfit where
// its domains lack the pods that the pod's affinity requires, have pods that its
// anti-affinity refuses, or have pods whose anti-affinity refuses it.
package interpodaffinity

import (
	"pintle.dev/pintle/plugins/predicates/podaffinity"
	"pintle.dev/pintle/plugins/predicates/topology"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the predicate.
const Name = "InterPodAffinity"

// The reasons that a FailedScheduling event counts.
const (
	ReasonAffinity = "node(s) didn't match pod affinity rules"
	ReasonAnti     = "node(s) didn't match pod anti-affinity rules"
	ReasonExisting = "node(s) didn't satisfy existing pods anti-affinity rules"
)

type predicate struct{ tables topology.Tables }

// New returns the predicate. What its configuration says is of scores alone.
func New() sdk.Predicate {
	p := &predicate{}
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeCluster, Contract: contract.Three, Reads: []string{podaffinity.KindNamespace},
		Configure: configure, Prepare: p.prepare, Follow: follow, Filter: filter,
	}
}

func configure(data []byte) error {
	_, err := podaffinity.ParseArgs(data)
	return err
}

// maxKnown bounds the affinities whose answer a class remembers.
const maxKnown = 4096

// state is what a class knows of the pods on nodes.
type state struct {
	subject podaffinity.Subject

	// need and hate are the required terms of the class; its sums count, by
	// domain, the pods that all terms of need select, and those that a term of
	// hate selects.
	need, hate    []podaffinity.Term
	needed, hated podaffinity.Sums
	needsItself   bool                       // all terms of need select the pod itself
	refused       podaffinity.Sums           // pods with a term of anti-affinity that selects the class
	known         map[*sdk.PodAffinity][]int // indexes in refused of such terms
}

func (p *predicate) prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	s := &state{subject: podaffinity.NewSubject(c, pod), known: map[*sdk.PodAffinity][]int{}}
	s.needed.Tables, s.hated.Tables, s.refused.Tables = &p.tables, &p.tables, &p.tables
	if a := pod.PodAffinity; a != nil {
		for i := range a.Required {
			s.need = append(s.need, podaffinity.NewTerm(c, &a.Required[i], &s.needed))
		}
	}
	if a := pod.PodAntiAffinity; a != nil {
		for i := range a.Required {
			s.hate = append(s.hate, podaffinity.NewTerm(c, &a.Required[i], &s.hated))
		}
	}
	s.needsItself = s.needs(pod)
	asks := len(s.need)+len(s.hate) > 0
	for node := range c.Nodes {
		for _, other := range node.Pods {
			if asks || other.PodAntiAffinity != nil {
				s.count(node, other, 1)
			}
		}
	}
	return s
}

func follow(_ *sdk.Cluster, _ *sdk.Pod, prepared any, changes []sdk.Change) any {
	s := prepared.(*state)
	if s.needed.Crowded() || s.hated.Crowded() || s.refused.Crowded() {
		return nil
	}
	for i := range changes {
		// Pods of a node that changes are told of as removed and added.
		switch change := &changes[i]; change.Kind {
		case sdk.PodAdded:
			s.count(change.Node, change.Pod, 1)
		case sdk.PodRemoved:
			s.count(change.Node, change.Pod, -1)
		}
	}
	return s
}

// needs reports whether all terms of need select a pod.
func (s *state) needs(pod *sdk.Pod) bool {
	for i := range s.need {
		if !s.need[i].Selects(pod) {
			return false
		}
	}
	return len(s.need) > 0
}

// count adds a pod on a node, or takes it away.
func (s *state) count(node *sdk.Node, pod *sdk.Pod, sign int64) {
	if s.needs(pod) {
		for i := range s.needed.List {
			s.needed.List[i].Add(node, sign)
		}
	}
	for i := range s.hate {
		if t := &s.hate[i]; t.Selects(pod) {
			s.hated.List[t.Sum].Add(node, sign)
		}
	}
	if a := pod.PodAntiAffinity; a != nil && len(a.Required) > 0 {
		for _, i := range s.refuses(a) {
			s.refused.List[i].Add(node, sign)
		}
	}
}

// refuses lists the sums of the terms that select the class. Pods of one class
// share their affinity, so that most are looked at once.
func (s *state) refuses(a *sdk.PodAffinity) []int {
	list, ok := s.known[a]
	if ok {
		return list
	}
	for i := range a.Required {
		if t := &a.Required[i]; s.subject.Selected(t) {
			list = append(list, s.refused.Of(t.TopologyKey))
		}
	}
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[a] = list
	return list
}

func filter(r *sdk.Request) sdk.Verdict {
	s := r.State.(*state)
	if len(s.need) > 0 && !s.met(r.Node) {
		return sdk.Never(ReasonAffinity)
	}
	if some(s.hated.List, r.Node) {
		return sdk.Unfit(ReasonAnti)
	}
	if some(s.refused.List, r.Node) {
		return sdk.Unfit(ReasonExisting)
	}
	return sdk.Fits()
}

// met reports whether the node's domains have what the class needs. A node has to
// have all labels; where no pod is what the class needs, it may itself be the first.
func (s *state) met(node *sdk.Node) bool {
	all, first := true, s.needsItself
	for i := range s.needed.List {
		sum := &s.needed.List[i]
		n, has := sum.At(node)
		if !has {
			return false
		}
		all = all && n > 0
		first = first && sum.Zero()
	}
	return all || first
}

func some(sums []podaffinity.Sum, node *sdk.Node) bool {
	for i := range sums {
		if n, _ := sums[i].At(node); n > 0 {
			return true
		}
	}
	return false
}
