package noderesourcesfit

import (
	"slices"
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	const gpu, fpga = "example.com/gpu", "vendor.io/fpga"
	node := func(milli, memory int64) *sdk.Node {
		return &sdk.Node{
			Allocatable: sdk.Resources{MilliCPU: 10, Memory: 20, EphemeralStorage: 20, Pods: 32, Scalar: map[string]int64{gpu: 5, "hugepages-2Mi": 5}},
			Requested:   sdk.Resources{MilliCPU: milli, Memory: memory, Pods: 1, Scalar: map[string]int64{gpu: 2}},
		}
	}
	full := node(0, 0)
	full.Requested.Pods = 32
	for _, c := range []struct {
		name, config string
		want         sdk.Resources
		node         *sdk.Node
		reasons      []string
		never        bool
	}{
		{"no resources requested always fits", "", sdk.Resources{}, node(10, 20), nil, false},
		{"too many resources fails", "", sdk.Resources{MilliCPU: 1, Memory: 1}, node(10, 20), []string{"Insufficient cpu", "Insufficient memory"}, false},
		{"one resource memory fits", "", sdk.Resources{MilliCPU: 2, Memory: 1}, node(9, 5), []string{"Insufficient cpu"}, false},
		{"equal edge case", "", sdk.Resources{MilliCPU: 5, Memory: 1}, node(5, 19), nil, false},
		{"more than the node ever has", "", sdk.Resources{MilliCPU: 11}, node(0, 0), []string{"Insufficient cpu"}, true},
		{"extended resource allocatable enforced", "", sdk.Resources{Scalar: map[string]int64{gpu: 4}}, node(0, 0), []string{"Insufficient " + gpu}, false},
		{"extended resource fits", "", sdk.Resources{Scalar: map[string]int64{gpu: 3}}, node(0, 0), nil, false},
		{"extended resources of which there are none, by name", "", sdk.Resources{Scalar: map[string]int64{fpga: 1, gpu: 6}}, node(0, 0), []string{"Insufficient " + gpu, "Insufficient " + fpga}, true},
		{"hugepages resource capacity enforced", "", sdk.Resources{Scalar: map[string]int64{"hugepages-2Mi": 10}}, node(0, 0), []string{"Insufficient hugepages-2Mi"}, true},
		{"skip checking ignored extended resource", `{"ignoredResources":["` + fpga + `"]}`, sdk.Resources{Scalar: map[string]int64{fpga: 2}}, node(0, 0), nil, false},
		{"skip checking ignored extended resource via resource groups", `{"ignoredResourceGroups":["vendor.io"]}`, sdk.Resources{Scalar: map[string]int64{fpga: 2}}, node(0, 0), nil, false},
		{"huge pages are never ignored", `{"ignoredResources":["hugepages-2Mi"]}`, sdk.Resources{Scalar: map[string]int64{"hugepages-2Mi": 10}}, node(0, 0), []string{"Insufficient hugepages-2Mi"}, true},
		{"a name that is no resource", "", sdk.Resources{Scalar: map[string]int64{"thing": 1}}, node(0, 0), nil, false},
		{"even without specified resources, predicate fails when there's no space for additional pod", "", sdk.Resources{}, full, []string{"Too many pods"}, false},
		{"storage ephemeral local storage request exceeds allocatable", "", sdk.Resources{EphemeralStorage: 25}, node(0, 0), []string{"Insufficient ephemeral-storage"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, pod := New(), &sdk.Pod{Requests: c.want}
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			v := p.Filter(&sdk.Request{Pod: pod, Node: c.node, State: p.Prepare(nil, pod)})
			if !slices.Equal(v.Reasons, c.reasons) || v.Unresolvable != c.never {
				t.Errorf("verdict %+v, want %v, never %v", v, c.reasons, c.never)
			}
		})
	}
}
