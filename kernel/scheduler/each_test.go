package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Each explains every pod on all nodes as if it had come alone, and one policy can
// be asked about one picture after the other.
func TestEach(t *testing.T) {
	var replica ReplicaSource
	policy := schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return replica.Replica() }, []sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode}, []sdk.Priority{schedulertest.LeastCPU})
	profiles := map[string]PolicySource{schedulertest.ProfileName: newTestSource(policy)}
	ask := func(generation uint64, nodes ...*v1.Node) string {
		cluster := &Cluster{Nodes: nodes, Pods: []*v1.Pod{schedulertest.MakePod("old", 600, func(p *v1.Pod) { p.Spec.NodeName = "n0" })}}
		pods := []*v1.Pod{schedulertest.MakePod("one", 600), schedulertest.MakePod("same", 600), schedulertest.MakePod("vast", 5000)}
		out, err := Each(bounded(t), cluster, pods, profiles, func(r ReplicaSource) { replica = r }, generation, explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, x := range out {
			got += fmt.Sprintf("%s %d of %d %s;", x.Pod, x.Feasible, x.Nodes, x.Message)
			for _, d := range x.Details {
				got += fmt.Sprintf(" %s %v", d.Node, d.Fits)
				for _, v := range d.Verdicts {
					got += " " + v.Answer
				}
			}
			got += "\n"
		}
		return got
	}
	if got, want := ask(1, schedulertest.MakeNode("n0", 1000, nil), schedulertest.MakeNode("n1", 1000, nil)),
		`one 1 of 2 ; n1 true fits fits n0 false refuses fits
same 1 of 2 ; n1 true fits fits n0 false refuses fits
vast 0 of 2 0/2 nodes are available: 2 Insufficient cpu.; n0 false refuses fits n1 false refuses fits
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := ask(1<<32, schedulertest.MakeNode("n0", 2000, nil)),
		`one 1 of 1 ; n0 true fits fits
same 1 of 1 ; n0 true fits fits
vast 0 of 1 0/1 nodes are available: 1 Insufficient cpu.; n0 false refuses fits
`; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
