package nodeaffinityscore

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestScore(t *testing.T) {
	prefer := func(weight int32, value string) sdk.PreferredTerm {
		return sdk.PreferredTerm{Weight: weight, Term: sdk.NodeSelectorTerm{MatchExpressions: []sdk.Requirement{{Key: "foo", Operator: "In", Values: []string{value}}}}}
	}
	const added = `{"addedAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":5,"preference":{"matchExpressions":[{"key":"foo","operator":"Exists"}]}}]}}`
	for _, c := range []struct {
		name, config string
		terms        []sdk.PreferredTerm
		want         int64
	}{
		{"all nodes are same priority as NodeAffinity is nil", "", nil, 0},
		{"no node matches preferred scheduling requirements in NodeAffinity of pod so all nodes' priority is zero", "", []sdk.PreferredTerm{prefer(4, "other")}, 0},
		{"all nodes matches the preferred scheduling requirements of pod but with different priorities", "", []sdk.PreferredTerm{prefer(2, "bar"), prefer(4, "bar"), prefer(8, "x")}, 6},
		{"added affinity", added, nil, 5},
		{"added affinity and pod has default affinity", added, []sdk.PreferredTerm{prefer(3, "bar")}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, pod := New(), &sdk.Pod{NodeAffinity: &sdk.NodeAffinity{Preferred: c.terms}}
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			if got := p.Score(&sdk.Request{Pod: pod, State: p.Prepare(nil, pod), Node: &sdk.Node{Labels: map[string]string{"foo": "bar"}}}); got != c.want {
				t.Errorf("weight %d, want %d", got, c.want)
			}
		})
	}
}
