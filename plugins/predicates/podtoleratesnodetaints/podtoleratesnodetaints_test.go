package podtoleratesnodetaints

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func taint(key, value, effect string) sdk.Taint {
	return sdk.Taint{Key: key, Value: value, Effect: effect}
}

func toleration(key, operator, value, effect string) sdk.Toleration {
	return sdk.Toleration{Key: key, Operator: operator, Value: value, Effect: effect}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name   string
		taints []sdk.Taint
		t      []sdk.Toleration
		fit    bool
	}{
		{"no taint", nil, nil, true},
		{"NoSchedule", []sdk.Taint{taint("k", "v", "NoSchedule")}, nil, false},
		{"NoExecute", []sdk.Taint{taint("k", "v", "NoExecute")}, nil, false},
		{"PreferNoSchedule is no bar", []sdk.Taint{taint("k", "v", "PreferNoSchedule")}, nil, true},
		{"tolerated", []sdk.Taint{taint("k", "v", "NoSchedule")}, []sdk.Toleration{toleration("k", "Equal", "v", "NoSchedule")}, true},
		{"one of two tolerated", []sdk.Taint{taint("k", "v", "NoSchedule"), taint("l", "", "NoExecute")}, []sdk.Toleration{toleration("k", "Exists", "", "")}, false},
		{"everything tolerated", []sdk.Taint{taint("k", "v", "NoSchedule"), taint("l", "", "NoExecute")}, []sdk.Toleration{toleration("", "Exists", "", "")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{Tolerations: c.t}, Node: &sdk.Node{Taints: c.taints}})
			if v.Fit() != c.fit || !c.fit && v.Reasons[0] != "node(s) had untolerated taint(s)" {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
