package equalpriority

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

// PRI-31: 1 for whatever node and pod, and not scaled to 10 afterwards.
func TestScore(t *testing.T) {
	p := New()
	for _, node := range []*sdk.Node{{}, {Name: "full", Unschedulable: true, NonZeroMilliCPU: 1 << 40}} {
		if got := p.Score(&sdk.Request{Pod: &sdk.Pod{}, Node: node}); got != 1 {
			t.Errorf("node %q: got %d", node.Name, got)
		}
	}
	if p.Normalize != sdk.NormalizeNone {
		t.Errorf("normalize %q", p.Normalize)
	}
}
