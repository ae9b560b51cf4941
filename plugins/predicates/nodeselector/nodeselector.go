package nodeselector

import (
	"slices"

	"pintle.dev/pintle/sdk"
)

// Required is what nodes must have for a pod. A nil one asks for nothing.
type Required struct {
	labels   map[string]string
	affinity bool // terms are asked for, though there may be none that can be met
	terms    []sdk.NodeSelectorTerm
}

// Of returns what a pod requires of nodes.
func Of(pod *sdk.Pod) *Required {
	required := pod.NodeAffinity != nil && pod.NodeAffinity.HasRequired
	if len(pod.NodeSelector) == 0 && !required {
		return nil
	}
	r := &Required{labels: pod.NodeSelector, affinity: required}
	if required {
		r.terms = readable(pod.NodeAffinity.Required)
	}
	return r
}

// New returns what an affinity requires of nodes; nil where it requires nothing.
func New(affinity *sdk.NodeAffinity) *Required {
	return Of(&sdk.Pod{NodeAffinity: affinity})
}

// Matches reports whether a node has all of it.
func (r *Required) Matches(node *sdk.Node) bool {
	if r == nil {
		return true
	}
	for key, want := range r.labels {
		if have, ok := node.Labels[key]; !ok || have != want {
			return false
		}
	}
	if !r.affinity {
		return true
	}
	for i := range r.terms {
		if r.terms[i].Matches(node) {
			return true
		}
	}
	return false
}

func readable(terms []sdk.NodeSelectorTerm) []sdk.NodeSelectorTerm {
	return slices.DeleteFunc(slices.Clone(terms), func(t sdk.NodeSelectorTerm) bool { return !Readable(&t) })
}

// Preferred returns the terms of an affinity that can add to a node's score.
func Preferred(affinity *sdk.NodeAffinity) []sdk.PreferredTerm {
	if affinity == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(affinity.Preferred), func(t sdk.PreferredTerm) bool {
		return t.Weight == 0 || !Readable(&t.Term)
	})
}

// Weight sums the weights of the terms that a node matches.
func Weight(terms []sdk.PreferredTerm, node *sdk.Node) int64 {
	var sum int64
	for i := range terms {
		if terms[i].Term.Matches(node) {
			sum += int64(terms[i].Weight)
		}
	}
	return sum
}
