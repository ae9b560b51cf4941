package sdk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A column counts the nodes of each number, and knows the one that more than half
// have, whatever came and went.
func TestColumnCounts(t *testing.T) {
	g, err := GuestOf(Predicate{Name: "P", Filter: func(*Request) Verdict { return Fits() }})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(4, 2))
	zones, column := map[uint32]string{}, (*Column)(nil)
	for step := range 600 {
		index := uint32(random.IntN(9))
		var op *contractv1.Operation
		if random.IntN(4) == 0 {
			delete(zones, index)
			op = &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: index}}
		} else {
			n := &contractv1.Node{Name: fmt.Sprint("n", index)}
			if zones[index] = ""; random.IntN(4) > 0 {
				zones[index] = fmt.Sprint("z", random.IntN(1+step%3))
				n.Labels = map[string]string{"zone": zones[index]}
			}
			op = node(index, n)
		}
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: uint64(step), Operations: []*contractv1.Operation{op}})); err != nil {
			t.Fatal(err)
		}
		if column == nil {
			column = g.Cluster().Column("zone")
		}
		count, majority := map[string]int{}, ""
		for _, zone := range zones {
			if count[zone]++; 2*count[zone] > len(zones) {
				majority = zone
			}
		}
		if got := column.Value(column.Majority()); got != majority {
			t.Fatalf("step %d: the majority is %q, want %q of %v", step, got, majority, zones)
		}
		set := make([]bool, column.Len())
		for number := range column.Len() {
			zone := column.Value(uint32(number))
			if got := column.Count(uint32(number)); got != count[zone] {
				t.Fatalf("step %d: %d nodes in %q, want %v", step, got, zone, zones)
			}
			set[number] = true
			listed := column.Nodes(set, nil)
			for index, has := range zones {
				if slices.Contains(listed, index) != (zone == has) {
					t.Fatalf("step %d: the nodes in %q are %v, want %v", step, zone, listed, zones)
				}
			}
			set[number] = false
		}
	}
}
