package sdk

import (
	"slices"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin that says what moved is believed from its first state on; whoever asks
// with a moment of another state, or none, is told of all nodes.
func TestMoved(t *testing.T) {
	var moved []uint32
	everything := false
	g, err := GuestOf(
		Predicate{
			Name: "P", Scope: ScopeCluster, Reads: []string{"Service"}, Filter: func(*Request) Verdict { return Fits() },
			Prepare: func(*Cluster, *Pod) any { return 1 }, Follow: func(_ *Cluster, _ *Pod, state any, _ []Change) any { return state },
			Moved: func(any) ([]uint32, bool) { return moved, everything },
		},
		Predicate{Name: "Silent", Scope: ScopeCluster, Filter: func(*Request) Verdict { return Fits() }},
	)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(ops ...*contractv1.Operation) {
		t.Helper()
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: 1, Operations: ops})); err != nil {
			t.Fatal(err)
		}
	}
	apply(class(1, &contractv1.Pod{}), node(0, &contractv1.Node{}), node(1, &contractv1.Node{}))
	ask := func(since uint64, want []uint32, all bool) uint64 {
		t.Helper()
		now, nodes, gotAll, err := g.Moved(0, 1, since)
		if err != nil || gotAll != all || !slices.Equal(nodes, want) {
			t.Fatalf("%v, all %v, %v; want %v, all %v", nodes, gotAll, err, want, all)
		}
		return now
	}
	first := ask(0, nil, true)
	ask(first, nil, false)
	moved = []uint32{1}
	apply(podAdd(0, &contractv1.Pod{Uid: "a"}))
	moved = []uint32{0, 1}
	apply(podAdd(0, &contractv1.Pod{Uid: "b"}))
	second := ask(first, []uint32{0, 1}, false) // both changes were followed at once
	moved = nil
	apply(podAdd(1, &contractv1.Pod{Uid: "c"}))
	third := ask(second, nil, false)
	ask(first, []uint32{0, 1}, false) // another who asks
	everything = true
	apply(podAdd(1, &contractv1.Pod{Uid: "d"}))
	fourth := ask(third, nil, true)
	everything = false
	ask(fourth, nil, false)
	apply(object("Service", "s")) // prepared anew
	fifth := ask(fourth, nil, true)
	if ask(fifth, nil, false) != fifth {
		t.Error("nothing happened, and it is another moment")
	}
	ask(fifth+1, nil, true)
	if _, _, all, err := g.Moved(1, 1, fifth); err != nil || !all {
		t.Errorf("a plugin that says nothing: all %v, %v", all, err)
	}
	if _, _, all, err := g.Moved(0, 9, fifth); err == nil || !all {
		t.Errorf("a class that is not there: all %v, %v", all, err)
	}
	if _, err := GuestOf(Predicate{Name: "P", Filter: func(*Request) Verdict { return Fits() }, Moved: func(any) ([]uint32, bool) { return nil, false }}); err == nil {
		t.Error("Moved goes without Follow")
	}
}

// Of a log that is full the oldest part goes: who asks often is told of what moved
// since, who does not of all nodes.
func TestMovedForLong(t *testing.T) {
	const each = maxMoves/4 + 1
	nodes := make([]uint32, each)
	for i := range nodes {
		nodes[i] = uint32(i)
	}
	g, err := GuestOf(Predicate{
		Name: "P", Scope: ScopeCluster, Filter: func(*Request) Verdict { return Fits() },
		Prepare: func(*Cluster, *Pod) any { return 1 }, Follow: func(_ *Cluster, _ *Pod, state any, _ []Change) any { return state },
		Moved: func(any) ([]uint32, bool) { return nodes, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(ops ...*contractv1.Operation) {
		t.Helper()
		if err := g.Apply(encode(t, &contractv1.Delta{Generation: 1, Operations: ops})); err != nil {
			t.Fatal(err)
		}
	}
	apply(class(1, &contractv1.Pod{}), node(0, &contractv1.Node{}))
	first, _, _, err := g.Moved(0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	since := first
	for k := range 12 {
		apply(podAdd(0, &contractv1.Pod{Uid: "a"}))
		now, moved, all, err := g.Moved(0, 1, since)
		if err != nil || all || !slices.Equal(moved, nodes) {
			t.Fatalf("change %d: %d nodes moved, all %v, %v; want %d", k, len(moved), all, err, each)
		}
		since = now
	}
	if _, moved, all, _ := g.Moved(0, 1, first); !all || len(moved) != 0 {
		t.Errorf("after what was forgotten: %d nodes, all %v; want all", len(moved), all)
	}
	nodes = make([]uint32, maxMoves+1)
	apply(podAdd(0, &contractv1.Pod{Uid: "b"}))
	if _, _, all, _ := g.Moved(0, 1, since); !all {
		t.Error("more than the log holds moved, and it is not all")
	}
}
