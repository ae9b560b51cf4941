package checknodeunschedulable

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	const key = "node.kubernetes.io/unschedulable"
	for _, c := range []struct {
		name     string
		cordoned bool
		t        []sdk.Toleration
		fit      bool
	}{
		{"open", false, nil, true},
		{"cordoned", true, nil, false},
		{"tolerated by key", true, []sdk.Toleration{{Key: key, Operator: "Exists", Effect: "NoSchedule"}}, true},
		{"tolerates everything", true, []sdk.Toleration{{Operator: "Exists"}}, true},
		{"tolerates another effect", true, []sdk.Toleration{{Key: key, Operator: "Exists", Effect: "NoExecute"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{Tolerations: c.t}, Node: &sdk.Node{Unschedulable: c.cordoned}})
			if v.Fit() != c.fit || !c.fit && v.Reasons[0] != "node(s) were unschedulable" {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
