package leastrequestedpriority

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

const mi = int64(1) << 20

func TestScore(t *testing.T) {
	for _, c := range []struct {
		name                string
		cpu, memory         int64 // node
		usedCPU, usedMemory int64 // by its pods
		podCPU, podMemory   int64
		want                int64
	}{
		{"T-5: half of both", 4000, 8192 * mi, 1000, 2048 * mi, 1000, 2048 * mi, 5},
		{"T-5, FIL-6: whole at each step", 2000, 4096 * mi, 250, 1024 * mi, 250, 2048 * mi, 4},
		{"PRI-5: empty node, empty request", 4000, 8192 * mi, 0, 0, 0, 0, 10},
		{"PRI-5: exactly full", 4000, 8192 * mi, 4000, 8192 * mi, 0, 0, 0},
		{"FIL-6: requested exceeds", 4000, 8192 * mi, 4000, 0, 1, 0, 5},
		{"FIL-6: capacity 0", 0, 0, 0, 0, 0, 0, 0},
		{"PRI-3: the pod counts", 4000, 4000 * mi, 0, 0, 2000, 2000 * mi, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &sdk.Node{
				Allocatable:     sdk.Resources{MilliCPU: c.cpu, Memory: c.memory},
				NonZeroMilliCPU: c.usedCPU, NonZeroMemory: c.usedMemory,
			}
			pod := &sdk.Pod{NonZeroMilliCPU: c.podCPU, NonZeroMemory: c.podMemory}
			if got := New().Score(&sdk.Request{Pod: pod, Node: node}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
