package nodename

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name, wanted, node string
		fit                bool
	}{
		{"no host specified", "", "foo", true},
		{"host matches", "foo", "foo", true},
		{"host doesn't match", "bar", "foo", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{NodeName: c.wanted}, Node: &sdk.Node{Name: c.node}})
			if v.Fit() != c.fit || !c.fit && (v.Reasons[0] != "node(s) didn't match the requested node name" || !v.Unresolvable) {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
