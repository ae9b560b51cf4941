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
	column *sdk.Column
	key    string
	of     []int64
	// others is how many domains have another number than 0.
	others int
	// positive: only where a number became more than 0, or is so no more, counts
	// as a change.
	positive bool
	changed  topology.Marks
}

// Add adds to the domain of a node, which need not be the present one of its index.
func (s *Sum) Add(node *sdk.Node, n int64) {
	domain := s.column.Of(node)
	if domain == 0 || n == 0 {
		return
	}
	if int(domain) >= len(s.of) {
		s.of = topology.Grown(s.of, max(int(domain)+1, s.column.Len()))
	}
	before := s.of[domain]
	after := before + n
	s.of[domain] = after
	switch {
	case before == 0:
		s.others++
	case after == 0:
		s.others--
	}
	if !s.positive || (before > 0) != (after > 0) {
		s.changed.Add(domain)
	}
}

// At is the number of a node's domain; has is false where it has none.
func (s *Sum) At(node *sdk.Node) (n int64, has bool) {
	domain := s.column.Of(node)
	if int(domain) < len(s.of) {
		n = s.of[domain]
	}
	return n, domain != 0
}

// Zero reports whether the number of each domain is 0.
func (s *Sum) Zero() bool { return s.others == 0 }

// Sums are sums by topology key, in the order in which keys came.
type Sums struct {
	List []Sum

	cluster  *sdk.Cluster
	positive bool
}

// NewSums returns sums over the domains of a cluster. With positive, a change is
// where a number became more than 0, or is so no more.
func NewSums(c *sdk.Cluster, positive bool) Sums { return Sums{cluster: c, positive: positive} }

// Of is the index of a key's sum.
func (s *Sums) Of(key string) int {
	for i := range s.List {
		if s.List[i].key == key {
			return i
		}
	}
	s.List = append(s.List, Sum{column: s.cluster.Column(key), key: key, positive: s.positive})
	return len(s.List) - 1
}

// Zero reports whether all numbers are 0.
func (s *Sums) Zero() bool {
	for i := range s.List {
		if !s.List[i].Zero() {
			return false
		}
	}
	return true
}

// Moved appends the nodes of the domains that changed since it was called last.
func (s *Sums) Moved(out []uint32) []uint32 {
	for i := range s.List {
		out = s.List[i].changed.Nodes(s.List[i].column, out)
	}
	return out
}
