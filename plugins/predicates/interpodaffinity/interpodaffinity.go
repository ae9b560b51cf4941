package interpodaffinity

import (
	"pintle.dev/pintle/plugins/predicates/podaffinity"
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

// The verdicts, made once.
var (
	lonely  = sdk.Never(ReasonAffinity)
	hating  = sdk.Unfit(ReasonAnti)
	refused = sdk.Unfit(ReasonExisting)
)

// New returns the predicate. What its configuration says is of scores alone.
func New() sdk.Predicate {
	return sdk.Predicate{
		Name: Name, Scope: sdk.ScopeCluster, Contract: contract.Three, Reads: []string{podaffinity.KindNamespace}, Events: events(),
		Configure: configure, Prepare: prepare, Follow: follow, Moved: moved, Aloof: aloof, FilterNodes: filter,
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
	first         bool                       // no pod is what the class needs, but the pod itself
	refused       podaffinity.Sums           // pods with a term of anti-affinity that selects the class
	known         map[*sdk.PodAffinity][]int // indexes in refused of such terms

	moved []uint32
	all   bool // any node moved
}

func prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	s := &state{
		subject: podaffinity.NewSubject(c, pod), known: map[*sdk.PodAffinity][]int{},
		needed: podaffinity.Counts(c), hated: podaffinity.Counts(c), refused: podaffinity.Counts(c),
	}
	s.need, s.hate = required(c, pod.PodAffinity, &s.needed), required(c, pod.PodAntiAffinity, &s.hated)
	s.needsItself = all(s.need, pod)
	podaffinity.CountThere(c, len(s.need)+len(s.hate) > 0, s)
	s.first = s.needsItself && s.needed.Zero()
	moved(s)
	return s
}

func follow(_ *sdk.Cluster, _ *sdk.Pod, prepared any, changes []sdk.Change) any {
	s := prepared.(*state)
	podaffinity.CountChanges(changes, s)
	if first := s.needsItself && s.needed.Zero(); first != s.first {
		s.first, s.all = first, true
	}
	return s
}

// moved lists the nodes of the domains whose part in the verdict changed.
func moved(prepared any) ([]uint32, bool) {
	s := prepared.(*state)
	all := s.all
	s.moved, s.all = s.refused.Moved(s.hated.Moved(s.needed.Moved(s.moved[:0]))), false
	return s.moved, all
}

// aloof: the pod asks for no pods and against none. What others ask for is of pods
// that do ask.
func aloof(pod *sdk.Pod) bool {
	return pod.PodAffinity == nil && pod.PodAntiAffinity == nil
}

// required reads the required terms of an affinity, with the sums of their keys.
func required(c *sdk.Cluster, a *sdk.PodAffinity, sums *podaffinity.Sums) (terms []podaffinity.Term) {
	if a == nil {
		return nil
	}
	for i := range a.Required {
		t := &a.Required[i]
		terms = append(terms, podaffinity.NewTerm(c, t, sums.Of(t.TopologyKey)))
	}
	return terms
}

// all reports whether there are terms and each selects a pod.
func all(terms []podaffinity.Term, pod *sdk.Pod) bool {
	for i := range terms {
		if !terms[i].Selects(pod) {
			return false
		}
	}
	return len(terms) > 0
}

// Count implements podaffinity.Counter.
func (s *state) Count(node *sdk.Node, pod *sdk.Pod, sign int64) {
	if all(s.need, pod) {
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

func filter(b *sdk.Batch) {
	s := b.State.(*state)
	if len(s.need)+len(s.hate) == 0 && s.refused.Zero() {
		return
	}
	for k, node := range b.Nodes {
		switch {
		case !s.met(node):
			b.Refuse(k, lonely)
		case some(s.hated.List, node):
			b.Refuse(k, hating)
		case some(s.refused.List, node):
			b.Refuse(k, refused)
		}
	}
}

// met reports whether the node's domains have what the class needs. A node has to
// have all labels; where no pod is what the class needs, it may itself be the first.
func (s *state) met(node *sdk.Node) bool {
	all := true
	for i := range s.needed.List {
		n, has := s.needed.List[i].At(node)
		if !has {
			return false
		}
		all = all && n > 0
	}
	return all || s.first
}

func some(sums []podaffinity.Sum, node *sdk.Node) bool {
	for i := range sums {
		if n, _ := sums[i].At(node); n > 0 {
			return true
		}
	}
	return false
}
