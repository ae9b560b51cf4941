package tainttolerationscore

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestScore(t *testing.T) {
	prefer := func(keys ...string) (out []sdk.Taint) {
		for _, key := range keys {
			out = append(out, sdk.Taint{Key: key, Value: "v", Effect: "PreferNoSchedule"})
		}
		return append(out, sdk.Taint{Key: "hard", Effect: "NoSchedule"})
	}
	for _, c := range []struct {
		name        string
		tolerations []sdk.Toleration
		taints      []sdk.Taint
		want        int64
	}{
		{"the count of taints that are tolerated by pod, does not matter", []sdk.Toleration{{Key: "a", Operator: "Exists"}, {Key: "b", Operator: "Exists"}}, prefer("a", "b"), 0},
		{"the count of taints on a node that are not tolerated by pod, matters", []sdk.Toleration{{Key: "a", Operator: "Equal", Value: "v", Effect: "PreferNoSchedule"}}, prefer("a", "b", "c"), 2},
		{"taints of other effects do not matter", nil, prefer(), 0},
		{"tolerations of other effects do not matter", []sdk.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}}, prefer("a"), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, pod := New(), &sdk.Pod{Tolerations: c.tolerations}
			if got := p.Score(&sdk.Request{Pod: pod, State: p.Prepare(nil, pod), Node: &sdk.Node{Taints: c.taints}}); got != c.want {
				t.Errorf("%d taints, want %d", got, c.want)
			}
		})
	}
}
