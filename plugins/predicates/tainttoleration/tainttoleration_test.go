package tainttoleration

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	dedicated := sdk.Taint{Key: "dedicated", Value: "user1", Effect: "NoSchedule"}
	for _, c := range []struct {
		name        string
		taints      []sdk.Taint
		tolerations []sdk.Toleration
		fit         bool
	}{
		{"A pod having no tolerations can't be scheduled onto a node with nonempty taints", []sdk.Taint{dedicated}, nil, false},
		{"A pod which can be scheduled on a dedicated node assigned to user1 with effect NoSchedule", []sdk.Taint{dedicated}, []sdk.Toleration{{Key: "dedicated", Value: "user1", Effect: "NoSchedule"}}, true},
		{"A pod which can't be scheduled on a dedicated node assigned to user2 with effect NoSchedule", []sdk.Taint{dedicated}, []sdk.Toleration{{Key: "dedicated", Operator: "Equal", Value: "user2", Effect: "NoSchedule"}}, false},
		{"A pod can be scheduled onto the node, with a toleration uses operator Exists that tolerates the taints on the node", []sdk.Taint{{Key: "foo", Value: "bar", Effect: "NoSchedule"}}, []sdk.Toleration{{Key: "foo", Operator: "Exists", Effect: "NoSchedule"}}, true},
		{"A pod has a toleration that keys and values match the taint on the node, but (non-empty) effect doesn't match, can't be scheduled onto the node", []sdk.Taint{{Key: "foo", Value: "bar", Effect: "NoSchedule"}}, []sdk.Toleration{{Key: "foo", Operator: "Equal", Value: "bar", Effect: "PreferNoSchedule"}}, false},
		{"The pod has a toleration that keys and values match the taint on the node, the effect of toleration is empty, and the effect of taint is NoSchedule. Pod can be scheduled onto the node", []sdk.Taint{{Key: "foo", Value: "bar", Effect: "NoSchedule"}}, []sdk.Toleration{{Key: "foo", Operator: "Equal", Value: "bar"}}, true},
		{"The pod has no toleration, node has a taint with effect PreferNoSchedule, can be scheduled", []sdk.Taint{{Key: "dedicated", Value: "user1", Effect: "PreferNoSchedule"}}, nil, true},
		{"NoExecute keeps pods away too", []sdk.Taint{{Key: "k", Effect: "NoExecute"}}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{Tolerations: c.tolerations}, Node: &sdk.Node{Taints: c.taints}})
			if v.Fit() != c.fit || !c.fit && (v.Reasons[0] != "node(s) had untolerated taint(s)" || !v.Unresolvable) {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
