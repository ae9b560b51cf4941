// Package podaffinity reads the terms of affinities between pods, as kube-scheduler
// 1.36 does, and keeps sums by the domains of their topology keys.
// InterPodAffinity and InterPodAffinityScore share it.
package podaffinity

import (
	"slices"

	"pintle.dev/pintle/plugins/predicates/topology"
	"pintle.dev/pintle/sdk"
)

// KindNamespace is the kind of objects that terms select by namespaceSelector.
const KindNamespace = "Namespace"

// Term is a term of a class, with the namespaces that it selects.
type Term struct {
	Sum    int // the index of its topology key among the sums
	Weight int64

	anywhere   bool
	namespaces map[string]bool
	selector   *sdk.Selector
}

// NewTerm reads a term; its sum is of the topology key.
func NewTerm(c *sdk.Cluster, t *sdk.PodAffinityTerm, sums *Sums) Term {
	out := Term{Sum: sums.Of(t.TopologyKey), Weight: int64(t.Weight), selector: t.Selector, namespaces: map[string]bool{}}
	for _, n := range t.Namespaces {
		out.namespaces[n] = true
	}
	switch s := t.NamespaceSelector; {
	case s == nil:
	case len(s.MatchLabels)+len(s.MatchExpressions) == 0:
		out.anywhere = true // also of namespaces that are not known
	default:
		c.Objects(KindNamespace, "", func(o *sdk.Object) bool {
			if s.Matches(o.Labels) {
				out.namespaces[o.Name] = true
			}
			return true
		})
	}
	return out
}

// Selects reports whether a pod is one that the term is about.
func (t *Term) Selects(pod *sdk.Pod) bool {
	return (t.anywhere || t.namespaces[pod.Namespace]) && t.selector.Matches(pod.Labels)
}

// Subject is a class as the terms of other pods see it.
type Subject struct {
	Pod *sdk.Pod
	// namespace is the labels of the pod's namespace; nil where it is not known.
	namespace map[string]string
}

// NewSubject looks the pod's namespace up.
func NewSubject(c *sdk.Cluster, pod *sdk.Pod) Subject {
	s := Subject{Pod: pod}
	if o := c.Object(KindNamespace, "", pod.Namespace); o != nil {
		s.namespace = o.Labels
	}
	return s
}

// Selected reports whether a term of another pod is about it.
func (s *Subject) Selected(t *sdk.PodAffinityTerm) bool {
	return (slices.Contains(t.Namespaces, s.Pod.Namespace) || t.NamespaceSelector.Matches(s.namespace)) && t.Selector.Matches(s.Pod.Labels)
}

// Sum is a number for each domain of one topology key.
type Sum struct {
	Table *topology.Table
	of    []int64
	// others is how many domains have another number than 0.
	others int
}

// Add adds to the domain of a node, which need not be the present one of its index.
func (s *Sum) Add(node *sdk.Node, n int64) {
	domain := s.Table.Of(node)
	if domain == topology.None || n == 0 {
		return
	}
	s.of = topology.Grown(s.of, s.Table.Len())
	before := s.of[domain]
	s.of[domain] += n
	switch {
	case before == 0:
		s.others++
	case s.of[domain] == 0:
		s.others--
	}
}

// At is the number of a node's domain; has is false where it has none.
func (s *Sum) At(node *sdk.Node) (n int64, has bool) {
	domain := s.Table.At(node)
	if domain == topology.None {
		return 0, false
	}
	if int(domain) < len(s.of) {
		n = s.of[domain]
	}
	return n, true
}

// Zero reports whether the number of each domain is 0.
func (s *Sum) Zero() bool { return s.others == 0 }

// Sums are sums by topology key, in the order in which keys came.
type Sums struct {
	Tables *topology.Tables
	List   []Sum
}

// Of is the index of a key's sum.
func (s *Sums) Of(key string) int {
	for i := range s.List {
		if s.List[i].Table.Key == key {
			return i
		}
	}
	s.List = append(s.List, Sum{Table: s.Tables.Of(key)})
	return len(s.List) - 1
}

// Crowded reports whether the sums are to be made anew.
func (s *Sums) Crowded() bool {
	for i := range s.List {
		if s.List[i].Table.Crowded() {
			return true
		}
	}
	return false
}
