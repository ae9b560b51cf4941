package matchnodeselector

import (
	"testing"

	"pintle.dev/pintle/plugins/predicates/affinityannotation"
	"pintle.dev/pintle/sdk"
)

func required(key, value string) *sdk.NodeAffinity {
	return &sdk.NodeAffinity{HasRequired: true, Required: []sdk.NodeSelectorTerm{{
		MatchExpressions: []sdk.Requirement{{Key: key, Operator: "In", Values: []string{value}}},
	}}}
}

func old(text string) map[string]string {
	return map[string]string{affinityannotation.Annotation: text}
}

func TestFilter(t *testing.T) {
	node := &sdk.Node{Name: "n1", Labels: map[string]string{"zone": "a", "disk": "ssd"}}
	for _, c := range []struct {
		name string
		pod  sdk.Pod
		fit  bool
	}{
		{"PRD-28: empty selector", sdk.Pod{}, true},
		{"PRD-28: selector matches", sdk.Pod{NodeSelector: map[string]string{"zone": "a"}}, true},
		{"PRD-28: one label differs", sdk.Pod{NodeSelector: map[string]string{"zone": "a", "disk": "hdd"}}, false},
		{"PRD-28: label missing", sdk.Pod{NodeSelector: map[string]string{"gpu": ""}}, false},
		{"PRD-31: affinity matches labels", sdk.Pod{NodeAffinity: required("zone", "a")}, true},
		{"PRD-31: affinity differs", sdk.Pod{NodeAffinity: required("zone", "b")}, false},
		{"ODD-13: the node's name is no label", sdk.Pod{NodeAffinity: required("name", "n1")}, false},
		{"PRD-32: both must pass", sdk.Pod{NodeSelector: map[string]string{"disk": "hdd"}, NodeAffinity: required("zone", "a")}, false},
		{"PRD-30: preferred terms take no part", sdk.Pod{NodeAffinity: &sdk.NodeAffinity{Preferred: []sdk.PreferredTerm{{Weight: 1, Term: required("zone", "b").Required[0]}}}}, true},
		{"PRD-29: annotation matches", sdk.Pod{Annotations: old(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]}}}`)}, true},
		{"PRD-29: annotation differs", sdk.Pod{Annotations: old(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["b"]}]}]}}}`)}, false},
		{"PRD-29: annotation not readable", sdk.Pod{Annotations: old(`{`)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			for _, state := range []any{p.Prepare(nil, &c.pod), nil} {
				v := p.Filter(&sdk.Request{Pod: &c.pod, Node: node, State: state})
				if v.Fit() != c.fit || !c.fit && v.Reasons[0] != "node(s) didn't match Pod's node affinity/selector" {
					t.Errorf("verdict %+v, want fit %v", v, c.fit)
				}
			}
		})
	}
}
