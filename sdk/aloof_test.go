package sdk

import (
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin is aloof to a class only if it says so, of a class that is there; pods of
// such a class do not concern each other either.
func TestAloof(t *testing.T) {
	alone := func(pod *Pod) bool { return pod.Labels["app"] == "" }
	fits := func(*Request) Verdict { return Fits() }
	g, err := GuestOf(
		Predicate{Name: "Node", Filter: fits},
		Predicate{Name: "Cluster", Scope: ScopeCluster, Filter: fits},
		Predicate{Name: "Says", Scope: ScopeCluster, Aloof: alone, Filter: fits},
		Priority{Name: "Scores", Scope: ScopeCluster, Aloof: alone, Score: func(*Request) int64 { return 0 }},
		Predicate{Name: "Fails", Scope: ScopeCluster, Aloof: func(*Pod) bool { panic("no") }, Filter: fits},
		Predicate{Name: "NodeSays", Aloof: alone, Filter: fits},
	)
	if err != nil {
		t.Fatal(err)
	}
	classes := []*contractv1.Operation{class(1, &contractv1.Pod{}), class(2, &contractv1.Pod{Labels: map[string]string{"app": "a"}})}
	if err := g.Apply(encode(t, &contractv1.Delta{Generation: 1, Operations: classes})); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name               string
		plugin             int
		class              uint32
		aloof, indifferent bool
		fails              bool
	}{
		{"of one node, and says nothing", 0, 1, false, true, false},
		{"says nothing", 1, 1, false, false, false},
		{"says so", 2, 1, true, true, false},
		{"says so of another class", 2, 2, false, false, false},
		{"a priority", 3, 1, true, true, false},
		{"of one node", 5, 1, true, true, false},
		{"of one node, of another class", 5, 2, false, true, false},
		{"no such class", 2, 9, false, false, true},
		{"panics", 4, 1, false, false, true},
		{"no such plugin", 9, 1, false, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			aloof, err := g.Aloof(test.plugin, test.class)
			if aloof != test.aloof || (err != nil) != test.fails {
				t.Errorf("aloof: %v, %v; want %v, an error %v", aloof, err, test.aloof, test.fails)
			}
			indifferent, err := g.Indifferent(test.plugin, test.class)
			if indifferent != test.indifferent || (err != nil) != test.fails {
				t.Errorf("indifferent: %v, %v; want %v, an error %v", indifferent, err, test.indifferent, test.fails)
			}
		})
	}
}
