package plugintest

import (
	"slices"
	"testing"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func TestClusterAsks(t *testing.T) {
	c := NewCluster().Node("a", CPU(2000)).Node("b", CPU(100), Label("disk", "ssd")).
		Pod("a", &contractv1.Pod{Requests: &contractv1.Resources{MilliCpu: 300}})
	pod := &contractv1.Pod{Requests: &contractv1.Resources{MilliCpu: 500}}
	got := c.Filter(t, sdk.Predicate{Name: "CPU", Filter: func(r *sdk.Request) sdk.Verdict {
		if r.Node.Requested.MilliCPU+r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU {
			return sdk.Unfit("Insufficient cpu")
		}
		return sdk.Fits()
	}}, pod)
	if got["a"] != nil || !slices.Equal(got["b"], []string{"Insufficient cpu"}) {
		t.Errorf("verdicts %v", got)
	}
	scores := c.Score(t, sdk.Priority{Name: "Free", Score: func(r *sdk.Request) int64 {
		return (r.Node.Allocatable.MilliCPU - r.Node.Requested.MilliCPU) / 100
	}}, pod)
	if scores["a"] != 17 || scores["b"] != 1 {
		t.Errorf("scores %v", scores)
	}
}
