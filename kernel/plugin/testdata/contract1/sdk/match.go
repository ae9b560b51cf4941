package sdk

import (
	"slices"
	"strconv"
)

// Matches reports whether a set of labels satisfies the requirement. Gt and Lt
// compare integers and are false where either side is none; NotIn and
// DoesNotExist are true for a missing key, as in Kubernetes (PRI-29). An
// operator outside the six matches nothing.
func (r *Requirement) Matches(labels map[string]string) bool {
	value, has := labels[r.Key]
	switch r.Operator {
	case "In":
		return has && slices.Contains(r.Values, value)
	case "NotIn":
		return !has || !slices.Contains(r.Values, value)
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		if !has || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return false
		}
		bound, err := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil {
			return false
		}
		if r.Operator == "Gt" {
			return have > bound
		}
		return have < bound
	}
	return false
}

// Matches reports whether labels satisfy every part of the selector. A nil
// selector matches nothing, an empty one everything.
func (s *Selector) Matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for key, want := range s.MatchLabels {
		if have, ok := labels[key]; !ok || have != want {
			return false
		}
	}
	for i := range s.MatchExpressions {
		if !s.MatchExpressions[i].Matches(labels) {
			return false
		}
	}
	return true
}

// Matches reports whether the node satisfies every requirement of the term.
// The one field that a term may name is metadata.name.
func (t *NodeSelectorTerm) Matches(n *Node) bool {
	if len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 {
		return false
	}
	for i := range t.MatchExpressions {
		if !t.MatchExpressions[i].Matches(n.Labels) {
			return false
		}
	}
	for i := range t.MatchFields {
		r := &t.MatchFields[i]
		if r.Key != "metadata.name" {
			return false
		}
		switch r.Operator {
		case "In":
			if !slices.Contains(r.Values, n.Name) {
				return false
			}
		case "NotIn":
			if slices.Contains(r.Values, n.Name) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// MatchesRequired reports whether the node satisfies the required terms. A nil
// affinity, or one without required terms, asks for nothing.
func (a *NodeAffinity) MatchesRequired(n *Node) bool {
	if a == nil || !a.HasRequired {
		return true
	}
	for i := range a.Required {
		if a.Required[i].Matches(n) {
			return true
		}
	}
	return false
}

// Tolerates reports whether the toleration covers the taint. An empty effect
// covers every effect, an empty key with Exists every key.
func (t *Toleration) Tolerates(taint *Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Value == taint.Value
	case "Exists":
		return true
	}
	return false
}

// Tolerates reports whether one of the pod's tolerations covers the taint.
func (p *Pod) Tolerates(taint *Taint) bool {
	for i := range p.Tolerations {
		if p.Tolerations[i].Tolerates(taint) {
			return true
		}
	}
	return false
}
