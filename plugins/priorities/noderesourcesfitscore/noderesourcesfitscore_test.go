package noderesourcesfitscore

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestScore(t *testing.T) {
	const gpu = "example.com/gpu"
	node := func(cpu, memory, usedCPU, usedMemory int64) *sdk.Node {
		return &sdk.Node{
			Allocatable:     sdk.Resources{MilliCPU: cpu, Memory: memory, Scalar: map[string]int64{gpu: 8}},
			NonZeroMilliCPU: usedCPU, NonZeroMemory: usedMemory, Requested: sdk.Resources{Scalar: map[string]int64{gpu: 2}},
		}
	}
	pod := func(cpu, memory, gpus int64) *sdk.Pod {
		return &sdk.Pod{NonZeroMilliCPU: cpu, NonZeroMemory: memory, Requests: sdk.Resources{Scalar: map[string]int64{gpu: gpus}}}
	}
	const ratio = `{"scoringStrategy":{"type":"RequestedToCapacityRatio","resources":[{"name":"cpu"},{"name":"memory"}],"requestedToCapacityRatio":{"shape":[{"utilization":0,"score":10},{"utilization":100,"score":0}]}}}`
	for _, c := range []struct {
		name, config string
		pod          *sdk.Pod
		node         *sdk.Node
		want         int64
	}{
		{"nothing scheduled, nothing requested (default weighting)", "", pod(0, 0, 0), node(4000, 10000, 0, 0), 100},
		{"nothing scheduled, resources requested, differently sized nodes", "", pod(3000, 5000, 0), node(4000, 10000, 0, 0), 37},
		{"the larger of the nodes", "", pod(3000, 5000, 0), node(6000, 10000, 0, 0), 50},
		{"requested resources exceed node capacity", "", pod(0, 0, 0), node(4000, 10000, 6000, 0), 50},
		{"zero node resources, pods scheduled with resources", "", pod(0, 0, 0), node(0, 0, 0, 0), 0},
		{"MostAllocated: resources requested", `{"scoringStrategy":{"type":"MostAllocated"}}`, pod(3000, 5000, 0), node(4000, 10000, 0, 0), 62},
		{"MostAllocated: over the node's capacity counts as all of it", `{"scoringStrategy":{"type":"MostAllocated"}}`, pod(9000, 0, 0), node(4000, 10000, 0, 0), 50},
		{"weights", `{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1},{"name":"example.com/gpu","weight":3}]}}`, pod(1000, 0, 2), node(4000, 10000, 0, 0), 43},
		{"an extended resource that is not requested is left out", `{"scoringStrategy":{"type":"MostAllocated","resources":[{"name":"cpu","weight":1},{"name":"example.com/gpu","weight":3}]}}`, pod(1000, 0, 0), node(4000, 10000, 0, 0), 25},
		{"RequestedToCapacityRatio: nothing requested", ratio, pod(0, 0, 0), node(4000, 10000, 0, 0), 100},
		{"RequestedToCapacityRatio: resources requested, least first", ratio, pod(3000, 5000, 0), node(4000, 10000, 0, 0), 38},
		{"RequestedToCapacityRatio: beyond the capacity", ratio, pod(5000, 5000, 0), node(4000, 10000, 0, 0), 50},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			if got := p.Score(&sdk.Request{Pod: c.pod, State: p.Prepare(nil, c.pod), Node: c.node}); got != c.want {
				t.Errorf("score %d, want %d", got, c.want)
			}
		})
	}
}
