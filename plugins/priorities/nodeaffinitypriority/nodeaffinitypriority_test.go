package nodeaffinitypriority

import (
	"testing"

	"pintle.dev/pintle/plugins/predicates/affinityannotation"
	"pintle.dev/pintle/sdk"
)

func prefer(weight int32, r ...sdk.Requirement) sdk.PreferredTerm {
	return sdk.PreferredTerm{Weight: weight, Term: sdk.NodeSelectorTerm{MatchExpressions: r}}
}

func has(key string) sdk.Requirement { return sdk.Requirement{Key: key, Operator: "Exists"} }

func TestScore(t *testing.T) {
	three := &sdk.NodeAffinity{Preferred: []sdk.PreferredTerm{prefer(10, has("a")), prefer(20, has("b")), prefer(30, has("c"))}}
	labels := func(keys ...string) map[string]string {
		m := map[string]string{}
		for _, k := range keys {
			m[k] = ""
		}
		return m
	}
	for _, c := range []struct {
		name   string
		config string
		pod    sdk.Pod
		labels map[string]string
		want   int64
	}{
		{"T-9: two of three", "", sdk.Pod{NodeAffinity: three}, labels("a", "c"), 2},
		{"T-9: one of three", "", sdk.Pod{NodeAffinity: three}, labels("b"), 1},
		{"T-9: none", "", sdk.Pod{NodeAffinity: three}, nil, 0},
		{"no affinity", "", sdk.Pod{}, labels("a"), 0},
		{"PRI-28: required terms do not score", "", sdk.Pod{NodeAffinity: &sdk.NodeAffinity{HasRequired: true, Required: []sdk.NodeSelectorTerm{three.Preferred[0].Term}}}, labels("a"), 0},
		{"an empty term matches nothing", "", sdk.Pod{NodeAffinity: &sdk.NodeAffinity{Preferred: []sdk.PreferredTerm{prefer(1)}}}, labels("a"), 0},
		{"ODD-12: weights when asked", `{"weighted":true}`, sdk.Pod{NodeAffinity: three}, labels("a", "c"), 40},
		{"PRI-23: annotation", "", sdk.Pod{Annotations: map[string]string{affinityannotation.Annotation: `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":9,"preference":{"matchExpressions":[{"key":"a","operator":"Exists"}]}}]}}`}}, labels("a"), 1},
		{"annotation not readable", "", sdk.Pod{Annotations: map[string]string{affinityannotation.Annotation: `{`}}, labels("a"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			for _, state := range []any{p.Prepare(nil, &c.pod), nil} {
				if got := p.Score(&sdk.Request{Pod: &c.pod, Node: &sdk.Node{Labels: c.labels}, State: state}); got != c.want {
					t.Errorf("got %d, want %d", got, c.want)
				}
			}
		})
	}
	if p := New(); p.Normalize != sdk.NormalizeMax { // FIL-17
		t.Errorf("normalize %q", p.Normalize)
	}
	if p := New(); p.Configure([]byte(`{"weighted":3}`)) == nil {
		t.Error("a wrong type is no error")
	}
}
