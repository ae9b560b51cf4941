package nodeaffinity

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

const added = `{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["node2"]}]}]}}}`

func TestFilter(t *testing.T) {
	zone := func(value string) *sdk.Pod { return &sdk.Pod{NodeSelector: map[string]string{"zone": value}} }
	for _, c := range []struct {
		name, config string
		pod          *sdk.Pod
		node         string
		reason       string
	}{
		{"no selector", "", &sdk.Pod{}, "node1", ""},
		{"missing labels", "", zone("b"), "node1", "node(s) didn't match Pod's node affinity/selector"},
		{"same labels", "", zone("a"), "node1", ""},
		{"Matches added affinity and Pod's node affinity", added, zone("a"), "node2", ""},
		{"Matches added affinity but not Pod's node affinity", added, zone("b"), "node2", "node(s) didn't match Pod's node affinity/selector"},
		{"Doesn't match added affinity", added, &sdk.Pod{}, "node1", "node(s) didn't match scheduler-enforced node affinity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			v := p.Filter(&sdk.Request{Pod: c.pod, State: p.Prepare(nil, c.pod), Node: &sdk.Node{Name: c.node, Labels: map[string]string{"zone": "a"}}})
			if v.Fit() != (c.reason == "") || !v.Fit() && (v.Reasons[0] != c.reason || !v.Unresolvable) {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestConfigure(t *testing.T) {
	for _, bad := range []string{
		`[]`, `{"addedAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In"}]}]}}}`,
		`{"addedAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":2,"preference":{"matchExpressions":[{"key":"a","operator":"is","values":["b"]}]}}]}}`,
	} {
		if err := New().Configure([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
