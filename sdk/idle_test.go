package sdk

import (
	"errors"
	"slices"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin with nothing to say about a class is asked about no node of it.
func TestIdle(t *testing.T) {
	asked := 0
	wants := func(pod *Pod, state any) bool { return pod.Labels["wants"] == "" && state == nil }
	g, err := GuestOf(
		Predicate{Name: "P", Idle: wants, Filter: func(*Request) Verdict { asked++; return Unfit("no") }},
		Priority{Name: "S", Idle: wants, Score: func(*Request) int64 { asked++; return 7 }},
		Predicate{Name: "Plain", Filter: func(*Request) Verdict { return Fits() }},
		Predicate{Name: "Bad", Idle: func(*Pod, any) bool { panic("on purpose") }, Filter: func(*Request) Verdict { return Fits() }},
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{
		node(0, &contractv1.Node{}), class(1, &contractv1.Pod{}), class(2, &contractv1.Pod{Labels: map[string]string{"wants": "it"}}),
	}})); err != nil {
		t.Fatal(err)
	}
	for class, want := range map[uint32]bool{1: true, 2: false} {
		asked = 0
		verdicts, scores := []uint32{9}, []int64{9}
		for i := range 3 {
			if idle, err := g.Idle(i, class); err != nil || idle != (want && i < 2) {
				t.Errorf("class %d, plugin %d: idle %v, %v", class, i, idle, err)
			}
		}
		if err := errors.Join(g.Filter(0, class, []uint32{0}, verdicts), g.Score(1, class, []uint32{0}, scores)); err != nil {
			t.Fatal(err)
		}
		if (verdicts[0] == 0) != want || (scores[0] == 0) != want || (asked == 0) != want {
			t.Errorf("class %d: %v, %v, asked %d times", class, verdicts, scores, asked)
		}
	}
	if err := g.Filter(0, 1, []uint32{5}, make([]uint32, 1)); !errors.Is(err, ErrNode) {
		t.Errorf("no such node: %v", err)
	}
	if _, err := g.Idle(3, 1); !errors.Is(err, ErrPanic) {
		t.Errorf("panic: %v", err)
	}
	if _, err := g.Idle(0, 9); !errors.Is(err, ErrClass) {
		t.Errorf("no such class: %v", err)
	}
	if _, err := g.Idle(9, 1); !errors.Is(err, ErrPlugin) {
		t.Errorf("no such plugin: %v", err)
	}
}

// AffinePods are the pods with affinity or anti-affinity, whatever came and went.
func TestAffinePods(t *testing.T) {
	g := newGuest(nil)
	with := func(uid string) *contractv1.Pod {
		return &contractv1.Pod{Name: uid, Uid: uid, PodAffinity: &contractv1.PodAffinity{}}
	}
	remove := func(uid string) *contractv1.Operation {
		return &contractv1.Operation{Op: &contractv1.Operation_PodRemove{PodRemove: &contractv1.PodRemove{Node: 1, Uid: uid}}}
	}
	gone := &contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: 1}}
	for _, step := range []struct {
		name string
		op   *contractv1.Operation
		want []string
	}{
		{"a node", node(1, &contractv1.Node{}), nil},
		{"a plain pod", podAdd(1, &contractv1.Pod{Uid: "plain"}), nil},
		{"one with affinity", podAdd(1, with("a")), []string{"a"}},
		{"the same again", podAdd(1, with("a")), []string{"a"}},
		{"the node changes", node(1, &contractv1.Node{Unschedulable: true}), []string{"a"}},
		{"another node", node(0, &contractv1.Node{}), []string{"a"}},
		{"a pod there", podAdd(0, with("b")), []string{"b", "a"}},
		{"it has none any more", podAdd(0, &contractv1.Pod{Uid: "b"}), []string{"a"}},
		{"it goes", remove("a"), nil},
		{"another", podAdd(1, with("c")), []string{"c"}},
		{"the node goes", gone, nil},
		{"and comes back", node(1, &contractv1.Node{}), nil},
	} {
		if err := g.Apply(encode(t, &contractv1.Delta{Operations: []*contractv1.Operation{step.op}})); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pod := range g.cluster.AffinePods {
			got = append(got, pod.UID)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: %v, want %v", step.name, got, step.want)
		}
	}
}
