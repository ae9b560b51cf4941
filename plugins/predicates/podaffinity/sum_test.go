package podaffinity

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// replica is a cluster with nodes in the given zones; "": without the label.
func replica(t *testing.T, zones ...string) *sdk.Cluster {
	t.Helper()
	g, err := sdk.GuestOf(sdk.Predicate{Name: "P", Filter: func(*sdk.Request) sdk.Verdict { return sdk.Fits() }})
	if err != nil {
		t.Fatal(err)
	}
	delta := &contractv1.Delta{Generation: 1, Reset_: true}
	for i, zone := range zones {
		n := &contractv1.Node{Name: fmt.Sprint("n", i)}
		if zone != "" {
			n.Labels = map[string]string{"zone": zone}
		}
		delta.Operations = append(delta.Operations, &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: uint32(i), Node: n}}})
	}
	data, err := proto.Marshal(delta)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	return g.Cluster()
}

var together = &sdk.Pod{PodAffinity: &sdk.PodAffinity{Required: []sdk.PodAffinityTerm{{TopologyKey: "zone"}}}}

// What moves when a pod comes is the part of the cluster that has fewer nodes, or of
// pods that have to be together the part where they are not.
func TestFewNodesMove(t *testing.T) {
	for _, c := range []struct {
		name  string
		class *sdk.Pod
		zones []string
		on    []uint32 // nodes to which 1 is added, one after the other
		want  []uint32 // that moved by the last
		at    []int64  // numbers then
	}{
		{"no zone has most nodes", &sdk.Pod{}, []string{"a", "a", "b", "b"}, []uint32{0}, []uint32{0, 1}, []int64{1, 1, 0, 0}},
		{"one zone has all", &sdk.Pod{}, []string{"a", "a", "a"}, []uint32{0, 1}, nil, []int64{0, 0, 0}},
		{"one zone has most", &sdk.Pod{}, []string{"a", "a", "a", "b", ""}, []uint32{0}, []uint32{3, 4}, []int64{0, 0, 0, -1, -1}},
		{"in another one", &sdk.Pod{}, []string{"a", "a", "a", "b", ""}, []uint32{0, 3}, []uint32{3}, []int64{0, 0, 0, 0, -1}},
		{"most have no label", &sdk.Pod{}, []string{"a", "", "", ""}, []uint32{0}, []uint32{0}, []int64{1, 0, 0, 0}},
		{"together where no zone has most", together, []string{"a", "b", "c", ""}, []uint32{1}, []uint32{0, 2, 3}, []int64{-1, 0, -1, -1}},
		{"together in two zones", together, []string{"a", "b", "c"}, []uint32{1, 2}, []uint32{2}, []int64{-1, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := replica(t, c.zones...)
			sums := Relative(cluster, c.class)
			s := &sums.List[sums.Of("zone"):][0]
			var moved []uint32
			for _, n := range c.on {
				s.Add(cluster.Node(n), 1)
				sums.Settle()
				moved = sums.Moved(nil)
			}
			if !slices.Equal(moved, c.want) {
				t.Errorf("%v moved, want %v", moved, c.want)
			}
			for i, want := range c.at {
				if n, has := s.At(cluster.Node(uint32(i))); n != want || has != (c.zones[i] != "") {
					t.Errorf("node %d has %d, %v; want %d", i, n, has, want)
				}
			}
		})
	}
}

// Differences between nodes are those of the sums, whatever came and went; who keeps
// the numbers of nodes that did not move has them right; and a sum that is made anew
// has the same.
func TestRelativeSums(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		zones := make([]string, 6)
		for i := range zones {
			if random.IntN(5) > 0 {
				zones[i] = fmt.Sprint("z", random.IntN(1+int(seed%4)))
			}
		}
		class := &sdk.Pod{}
		if seed%3 == 0 {
			class = together
		}
		cluster := replica(t, zones...)
		sums := Relative(cluster, class)
		index := sums.Of("zone")
		added, kept := map[string]int64{}, make([]int64, len(zones))
		for range 40 {
			for range random.IntN(4) {
				n := random.IntN(len(zones))
				by := int64(random.IntN(7) - 3)
				sums.List[index].Add(cluster.Node(uint32(n)), by)
				if zones[n] != "" {
					added[zones[n]] += by
				}
			}
			sums.Settle()
			moved := sums.Moved(nil)
			anew := Relative(cluster, class)
			again := &anew.List[anew.Of("zone"):][0]
			for i, zone := range zones {
				if first := slices.Index(zones, zone); first == i && zone != "" {
					again.Add(cluster.Node(uint32(i)), added[zone])
				}
			}
			anew.Settle()
			for i := range zones {
				at, _ := sums.List[index].At(cluster.Node(uint32(i)))
				if fresh, _ := again.At(cluster.Node(uint32(i))); at != fresh {
					t.Fatalf("seed %d: node %d of %v has %d, made anew %d", seed, i, zones, at, fresh)
				}
				if slices.Contains(moved, uint32(i)) {
					kept[i] = at
				}
				if kept[i] != at {
					t.Fatalf("seed %d: node %d of %v had %d, has %d and did not move", seed, i, zones, kept[i], at)
				}
				if first, _ := sums.List[index].At(cluster.Node(0)); at-first != added[zones[i]]-added[zones[0]] {
					t.Fatalf("seed %d: nodes 0 and %d of %v have %d and %d, want the difference of %v", seed, i, zones, first, at, added)
				}
			}
		}
	}
}
