package affinityannotation

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestAffinities(t *testing.T) {
	field := &sdk.NodeAffinity{HasRequired: true}
	const old = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]}]},
		"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":7,"preference":{"matchExpressions":[{"key":"disk","operator":"Exists"}]}}]}}`
	for _, c := range []struct {
		name       string
		pod        sdk.Pod
		want       int
		unreadable bool
	}{
		{"none", sdk.Pod{}, 0, false},
		{"field", sdk.Pod{NodeAffinity: field}, 1, false},
		{"PRD-29: annotation", sdk.Pod{Annotations: map[string]string{Annotation: old}}, 1, false},
		{"ODD-8: both", sdk.Pod{NodeAffinity: field, Annotations: map[string]string{Annotation: old}}, 2, false},
		{"annotation of another affinity", sdk.Pod{Annotations: map[string]string{Annotation: `{"podAffinity":{}}`}}, 0, false},
		{"empty annotation", sdk.Pod{Annotations: map[string]string{Annotation: ""}}, 0, false},
		{"broken annotation", sdk.Pod{Annotations: map[string]string{Annotation: `{"nodeAffinity":`}}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Affinities(&c.pod)
			if len(got) != c.want || (err != nil) != c.unreadable {
				t.Fatalf("%d affinities, error %v", len(got), err)
			}
		})
	}
	got, err := Affinities(&sdk.Pod{Annotations: map[string]string{Annotation: old}})
	if err != nil {
		t.Fatal(err)
	}
	a := got[0]
	if !a.HasRequired || len(a.Required) != 1 || a.Required[0].MatchExpressions[0].Values[0] != "a" {
		t.Errorf("required %+v", a.Required)
	}
	if len(a.Preferred) != 1 || a.Preferred[0].Weight != 7 || a.Preferred[0].Term.MatchExpressions[0].Operator != "Exists" {
		t.Errorf("preferred %+v", a.Preferred)
	}
}

// An annotation is untrusted input: whatever it holds, reading it ends without
// a panic and an accepted one can be matched.
func FuzzAffinities(f *testing.F) {
	f.Add(`{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}`)
	f.Add(`{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{}]}}`)
	f.Add(`[]`)
	node := &sdk.Node{Name: "n", Labels: map[string]string{"a": "1"}}
	f.Fuzz(func(_ *testing.T, text string) {
		got, _ := Affinities(&sdk.Pod{Annotations: map[string]string{Annotation: text}})
		for _, a := range got {
			a.MatchesRequired(node)
		}
	})
}
