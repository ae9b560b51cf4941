package noderesourcesbalancedallocation

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestScore(t *testing.T) {
	node := &sdk.Node{
		Allocatable: sdk.Resources{MilliCPU: 10000, Memory: 10000, EphemeralStorage: 10000, Scalar: map[string]int64{"example.com/gpu": 4}},
		Requested:   sdk.Resources{MilliCPU: 5000, Memory: 1000},
	}
	for _, c := range []struct {
		name, config string
		want         sdk.Resources
		score        int64
	}{
		{"bestEffort pods, skip in PreScore", "", sdk.Resources{}, 0},
		{"closer together", "", sdk.Resources{Memory: 4000}, 85},
		{"further apart", "", sdk.Resources{MilliCPU: 4000}, 65},
		{"the same", "", sdk.Resources{MilliCPU: 1000, Memory: 1000}, 75},
		{"beyond the node counts as all of it", "", sdk.Resources{MilliCPU: 9000, Memory: 9000}, 85},
		{"three resources", `{"resources":[{"name":"cpu"},{"name":"memory"},{"name":"ephemeral-storage","weight":1}]}`, sdk.Resources{Memory: 4000, EphemeralStorage: 5000}, 86},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, pod := New(), &sdk.Pod{Requests: c.want}
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			if got := p.Score(&sdk.Request{Pod: pod, State: p.Prepare(nil, pod), Node: node}); got != c.score {
				t.Errorf("score %d, want %d", got, c.score)
			}
		})
	}
	for _, bad := range []string{`1`, `{"resources":[{"name":"cpu","weight":2}]}`, `{"resources":[{"name":"cpu"},{"name":"cpu"}]}`} {
		if err := New().Configure([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
