package nodeunschedulable

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	tolerant := []sdk.Toleration{{Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: "NoSchedule"}}
	for _, c := range []struct {
		name        string
		cordoned    bool
		tolerations []sdk.Toleration
		fit         bool
	}{
		{"Does not schedule pod to unschedulable node (node.Spec.Unschedulable==true)", true, nil, false},
		{"Schedule pod to normal node", false, nil, true},
		{"Schedule pod with toleration to unschedulable node (node.Spec.Unschedulable==true)", true, tolerant, true},
		{"a toleration of another effect", true, []sdk.Toleration{{Key: "node.kubernetes.io/unschedulable", Operator: "Exists", Effect: "NoExecute"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{Tolerations: c.tolerations}, Node: &sdk.Node{Unschedulable: c.cordoned}})
			if v.Fit() != c.fit || !c.fit && (v.Reasons[0] != "node(s) were unschedulable" || !v.Unresolvable) {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
