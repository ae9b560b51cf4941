package podfitsresources

import (
	"slices"
	"testing"

	"pintle.dev/pintle/sdk"
)

const gi = int64(1) << 30

func node() *sdk.Node {
	return &sdk.Node{
		Capacity:    sdk.Resources{MilliCPU: 4000, Memory: 8 * gi, Pods: 110, EphemeralStorage: 10 * gi},
		Allocatable: sdk.Resources{MilliCPU: 3500, Memory: 7 * gi, Pods: 100, EphemeralStorage: 9 * gi, Scalar: map[string]int64{"example.com/gpu": 2}},
		Requested:   sdk.Resources{MilliCPU: 3000, Memory: 4 * gi, Pods: 10, EphemeralStorage: gi, Scalar: map[string]int64{"example.com/gpu": 1}},
	}
}

func TestFilter(t *testing.T) {
	for _, c := range []struct {
		name   string
		config string
		change func(*sdk.Node)
		want   sdk.Resources
		unfit  []string
	}{
		{name: "T-2, PRD-12: exactly full fits", want: sdk.Resources{MilliCPU: 1000, Memory: 4 * gi}},
		{name: "T-2: one milli too much", want: sdk.Resources{MilliCPU: 1001, Memory: 4 * gi}, unfit: []string{"Insufficient cpu"}},
		{name: "PRD-9: memory", want: sdk.Resources{Memory: 4*gi + 1}, unfit: []string{"Insufficient memory"}},
		{name: "every reason is named", want: sdk.Resources{MilliCPU: 1001, Memory: 5 * gi, EphemeralStorage: 10 * gi}, unfit: []string{"Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}},
		{name: "PRD-12: last pod slot", change: func(n *sdk.Node) { n.Requested.Pods = 109 }},
		{name: "PRD-9: no pod slot", change: func(n *sdk.Node) { n.Requested.Pods = 110 }, unfit: []string{"Too many pods"}},
		{name: "PRD-11: capacity by default", want: sdk.Resources{MilliCPU: 1000}},
		{name: "ODD-6: allocatable when asked", config: `{"bound":"allocatable"}`, want: sdk.Resources{MilliCPU: 501}, unfit: []string{"Insufficient cpu"}},
		{name: "nothing asked of an overfull node", change: func(n *sdk.Node) { n.Requested.MilliCPU = 9000 }, want: sdk.Resources{Memory: gi}},
		{name: "002 §extended: a resource that an extender manages", config: `{"ignoredResources":["example.com/gpu"]}`, want: sdk.Resources{Scalar: map[string]int64{"example.com/gpu": 2, "b/b": 1}}, unfit: []string{"Insufficient b/b"}},
		{name: "extended resource fits", want: sdk.Resources{Scalar: map[string]int64{"example.com/gpu": 1}}},
		{name: "extended resource too much", want: sdk.Resources{Scalar: map[string]int64{"example.com/gpu": 2}}, unfit: []string{"Insufficient example.com/gpu"}},
		{name: "unknown extended resources, sorted", want: sdk.Resources{Scalar: map[string]int64{"b/b": 1, "a/a": 1}}, unfit: []string{"Insufficient a/a", "Insufficient b/b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			n := node()
			if c.change != nil {
				c.change(n)
			}
			v := p.Filter(&sdk.Request{Pod: &sdk.Pod{Requests: c.want}, Node: n})
			if !slices.Equal(v.Reasons, c.unfit) {
				t.Errorf("reasons %q, want %q", v.Reasons, c.unfit)
			}
		})
	}
}

func TestConfigureRejects(t *testing.T) {
	for _, bad := range []string{`{"bound":"usage"}`, `{"bound":1}`, `[`} {
		p := New()
		if err := p.Configure([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
