package nodeaffinityprefilter

import (
	"maps"
	"slices"
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestNamed(t *testing.T) {
	in := func(names ...[]string) (t sdk.NodeSelectorTerm) {
		for _, values := range names {
			t.MatchFields = append(t.MatchFields, sdk.Requirement{Key: "metadata.name", Operator: "In", Values: values})
		}
		return t
	}
	labels := sdk.NodeSelectorTerm{MatchExpressions: []sdk.Requirement{{Key: "foo", Operator: "Exists"}}}
	a, b := []string{"a"}, []string{"b"}
	for _, c := range []struct {
		name  string
		terms []sdk.NodeSelectorTerm
		want  []string // nil: any
		all   bool
	}{
		{"no terms", nil, nil, true},
		{"Pod with matchFields using In operator that matches the existing node", []sdk.NodeSelectorTerm{in(a)}, a, false},
		{"Pod with two terms: both matchFields", []sdk.NodeSelectorTerm{in(a), in(b)}, []string{"a", "b"}, false},
		{"Pod with two terms: matchField does not match, but matchExpressions matches", []sdk.NodeSelectorTerm{in(a), labels}, nil, true},
		{"Pod has a conflicting term", []sdk.NodeSelectorTerm{in(a, b)}, nil, false},
		{"Pod has two conflicting terms, and one of them does not conflict", []sdk.NodeSelectorTerm{in(a, b), in(b)}, b, false},
		{"NotIn names no node", []sdk.NodeSelectorTerm{{MatchFields: []sdk.Requirement{{Key: "metadata.name", Operator: "NotIn", Values: a}}}}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := named(&sdk.NodeAffinity{HasRequired: true, Required: c.terms})
			if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, c.want) || ok == c.all {
				t.Errorf("%v, %v", names, ok)
			}
		})
	}
	conflict := &sdk.Pod{NodeAffinity: &sdk.NodeAffinity{HasRequired: true, Required: []sdk.NodeSelectorTerm{in(a, b)}}}
	if nodes, s := New().Narrow(nil, conflict); nodes != nil || s.Code != sdk.UnschedulableAndUnresolvable || s.Reasons[0] != "pod affinity terms conflict" {
		t.Errorf("%v, %+v", nodes, s)
	}
}
