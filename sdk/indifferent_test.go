package sdk

import (
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A plugin that looks at one node is indifferent by itself; one of scope cluster only
// if it says so, of a class that is there.
func TestIndifferent(t *testing.T) {
	alone := func(pod *Pod, _ any) bool { return pod.Labels["app"] == "" }
	fits := func(*Request) Verdict { return Fits() }
	g, err := GuestOf(
		Predicate{Name: "Node", Filter: fits},
		Predicate{Name: "Cluster", Scope: ScopeCluster, Filter: fits},
		Predicate{Name: "Says", Scope: ScopeCluster, Indifferent: alone, Filter: fits},
		Predicate{Name: "Fails", Scope: ScopeCluster, Indifferent: func(*Pod, any) bool { panic("no") }, Filter: fits},
	)
	if err != nil {
		t.Fatal(err)
	}
	classes := []*contractv1.Operation{class(1, &contractv1.Pod{}), class(2, &contractv1.Pod{Labels: map[string]string{"app": "a"}})}
	if err := g.Apply(encode(t, &contractv1.Delta{Generation: 1, Operations: classes})); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		plugin int
		class  uint32
		want   bool
		fails  bool
	}{
		{"of one node", 0, 1, true, false},
		{"says nothing", 1, 1, false, false},
		{"says so", 2, 1, true, false},
		{"says so of another class", 2, 2, false, false},
		{"no such class", 2, 9, false, true},
		{"panics", 3, 1, false, true},
		{"no such plugin", 9, 1, false, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := g.Indifferent(test.plugin, test.class)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("%v, %v; want %v, an error %v", got, err, test.want, test.fails)
			}
		})
	}
}
