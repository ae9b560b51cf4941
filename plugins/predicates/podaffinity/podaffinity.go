package podaffinity

import (
	"slices"

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

// NewTerm reads a term whose topology key has a sum.
func NewTerm(c *sdk.Cluster, t *sdk.PodAffinityTerm, sum int) Term {
	out := Term{Sum: sum, Weight: int64(t.Weight), selector: t.Selector, namespaces: map[string]bool{}}
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
