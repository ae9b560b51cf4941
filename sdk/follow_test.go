package sdk

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// zones counts pods by the zone of their node.
type zones map[string]int

func countZones(c *Cluster, _ *Pod) any {
	z := zones{}
	for n := range c.Nodes {
		for range n.Pods {
			z[n.Labels["zone"]]++
		}
	}
	return z
}

func followZones(_ *Cluster, _ *Pod, state any, changes []Change) any {
	z := state.(zones)
	for _, change := range changes {
		switch zone := change.Node.Labels["zone"]; change.Kind {
		case PodAdded:
			z[zone]++
		case PodRemoved:
			if z[zone]--; z[zone] == 0 {
				delete(z, zone)
			}
		}
	}
	return z
}

// A state that was followed is what Prepare would have made, whatever happened:
// nodes that move between zones, come, go and come back, pods that are replaced.
func TestFollowIsPrepare(t *testing.T) {
	prepared, asked := 0, 0
	g, err := GuestOf(Predicate{
		Name: "P", Scope: ScopeCluster,
		Prepare: func(c *Cluster, pod *Pod) any { prepared++; return countZones(c, pod) },
		Follow:  followZones,
		Filter: func(r *Request) Verdict {
			asked++
			if want := countZones(r.Cluster, r.Pod).(zones); !maps.Equal(want, r.State.(zones)) {
				t.Fatalf("followed to %v, want %v", r.State, want)
			}
			return Fits()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	pod := func() *contractv1.Pod { return &contractv1.Pod{Uid: fmt.Sprint("u", random.IntN(60))} }
	zone := func(index uint32) *contractv1.Operation {
		return node(index, &contractv1.Node{Name: fmt.Sprint("n", index), Labels: map[string]string{"zone": fmt.Sprint(random.IntN(3))}})
	}
	out := make([]uint32, 1)
	ask := func() {
		if err := g.Filter(0, 1, []uint32{0}, out); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2000 {
		delta := &contractv1.Delta{Generation: uint64(round + 1), Reset_: round%500 == 0}
		if delta.Reset_ {
			delta.Operations = append(delta.Operations, class(1, &contractv1.Pod{}))
			for index := range uint32(8) {
				delta.Operations = append(delta.Operations, zone(index))
			}
		}
		there := map[uint32]bool{0: true}
		for index := range uint32(8) {
			there[index] = delta.Reset_ || g.cluster.Node(index) != nil
		}
		for range 1 + random.IntN(4) {
			index := uint32(random.IntN(8))
			switch kind := random.IntN(10); {
			case kind == 0:
				delta.Operations, there[index] = append(delta.Operations, zone(index)), true
			case kind == 1 && index != 0:
				delta.Operations = append(delta.Operations, &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: index}})
				there[index] = false
			case kind < 7 && there[index]:
				delta.Operations = append(delta.Operations, podAdd(index, pod()))
			default:
				delta.Operations = append(delta.Operations, &contractv1.Operation{Op: &contractv1.Operation_PodRemove{
					PodRemove: &contractv1.PodRemove{Node: index, Uid: pod().GetUid()}}})
			}
		}
		if err := g.Apply(encode(t, delta)); err != nil {
			t.Fatal(err)
		}
		if random.IntN(3) > 0 {
			ask()
		}
	}
	if prepared != 4 {
		t.Errorf("prepared %d times in %d questions, want once a reset", prepared, asked)
	}
	// A gap that the log does not reach over.
	for round := range maxChanges {
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: uint64(3000 + round), Operations: []*contractv1.Operation{podAdd(0, pod())}})); err != nil {
			t.Fatal(err)
		}
	}
	if ask(); prepared != 5 {
		t.Errorf("prepared %d times after a gap, want once more", prepared)
	}
}

// Follow may give up, and is for states of cluster scope alone.
func TestFollowGivesUp(t *testing.T) {
	prepared := 0
	p := Predicate{
		Name: "P", Scope: ScopeCluster,
		Prepare: func(*Cluster, *Pod) any { prepared++; return prepared },
		Follow:  func(*Cluster, *Pod, any, []Change) any { return nil },
		Filter:  func(*Request) Verdict { return Fits() },
	}
	g, err := GuestOf(p)
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint64(3) {
		delta := &contractv1.Delta{Generation: round + 1, Operations: []*contractv1.Operation{node(uint32(round), &contractv1.Node{Name: "n"})}}
		if round == 0 {
			delta.Operations = append(delta.Operations, class(1, &contractv1.Pod{}))
		}
		if err := g.Apply(encode(t, delta)); err != nil {
			t.Fatal(err)
		}
		if err := g.Filter(0, 1, []uint32{0}, make([]uint32, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if prepared != 3 {
		t.Errorf("prepared %d times, want 3", prepared)
	}
	p.Scope = ScopeNode
	if _, err := GuestOf(p); err == nil {
		t.Error("Follow was taken with ScopeNode")
	}
}
