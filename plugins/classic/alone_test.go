package main

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/conformance"
)

// A predicate that answers many nodes at once answers as it does node by node.
func TestManyAsOneByOne(t *testing.T) {
	refused := map[string]int{}
	for seed := range uint64(60) {
		g := sdk.NewGuest()
		w := conformance.NewWorld(seed, 40, conformance.Vocabulary{})
		for step := range 8 {
			delta := w.Step()
			if step == 0 {
				delta = w.Whole()
			}
			data, err := proto.Marshal(delta)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Apply(data); err != nil {
				t.Fatal(err)
			}
			nodes := w.Nodes()
			for i, p := range g.Plugins() {
				if p.Kind != sdk.KindPredicate {
					continue
				}
				many, one := make([]uint32, len(nodes)), make([]uint32, len(nodes))
				if err := g.Filter(i, conformance.Class, nodes, many); err != nil {
					t.Fatal(err)
				}
				for k := range nodes {
					if err := g.Filter(i, conformance.Class, nodes[k:k+1], one[k:k+1]); err != nil {
						t.Fatal(err)
					}
					if many[k] != 0 {
						refused[p.Name]++
					}
				}
				if !slices.Equal(many, one) {
					t.Fatalf("seed %d, step %d, %s: many %v, one by one %v", seed, step, p.Name, many, one)
				}
			}
		}
	}
	for _, name := range []string{"CheckNodeUnschedulable", "PodToleratesNodeTaints", "MatchNodeSelector", "PodFitsResources", "PodFitsHostPorts"} {
		if refused[name] == 0 {
			t.Errorf("%s refused no node", name)
		}
	}
}
