package hostname

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name, asks string
		fit        bool
	}{
		{"PRD-33: no host named", "", true},
		{"PRD-33: this host", "n1", true},
		{"PRD-33: another host", "n2", false},
		{"ODD-27: equality, no prefix", "n", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{NodeName: c.asks}, Node: &sdk.Node{Name: "n1"}})
			if v.Fit() != c.fit || !c.fit && v.Reasons[0] != "node(s) didn't match the requested node name" {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
