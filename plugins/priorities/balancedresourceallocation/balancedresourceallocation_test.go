package balancedresourceallocation

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestScore(t *testing.T) {
	for _, c := range []struct {
		name        string
		cpu, memory int64 // requested with the pod, of 1000 each
		total       int64
		want        int64
	}{
		{"T-6: a quarter and three quarters", 250, 750, 1000, 5},
		{"T-6, PRI-8: equal fractions", 500, 500, 1000, 10},
		{"PRI-8: either may be the larger", 750, 250, 1000, 5},
		{"FIL-6: truncated", 300, 333, 1000, 9},
		{"FIL-6: CPU full", 1000, 500, 1000, 0},
		{"FIL-6: memory over", 500, 1001, 1000, 0},
		{"node without anything", 0, 0, 0, 0},
		{"nothing requested", 0, 0, 1000, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &sdk.Node{
				Capacity:        sdk.Resources{MilliCPU: c.total, Memory: c.total},
				NonZeroMilliCPU: c.cpu / 2, NonZeroMemory: c.memory / 3,
			}
			pod := &sdk.Pod{NonZeroMilliCPU: c.cpu - c.cpu/2, NonZeroMemory: c.memory - c.memory/3}
			if got := New().Score(&sdk.Request{Pod: pod, Node: node}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
