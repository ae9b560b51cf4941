package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// A simulation places pods as the scheduler does, each on what the ones before
// left, and says why one fits nowhere.
func TestSimulate(t *testing.T) {
	var replica ReplicaSource
	policy := newCyclePolicy(t, func() *contractv1.Delta { return replica.Replica() }, gates)
	source := newTestSource(policy.GuestPolicy)
	source.cycle.Store(policy)
	bound := schedulertest.MakePod("old", 600, func(p *v1.Pod) { p.Spec.NodeName = "n0" })
	cluster := &Cluster{
		Nodes: []*v1.Node{schedulertest.MakeNode("n0", 1000, nil), schedulertest.MakeNode("n1", 1000, nil)},
		Pods:  []*v1.Pod{bound, schedulertest.MakePod("waits", 100), schedulertest.MakePod("ended", 900, func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n1", v1.PodSucceeded })},
	}
	pods := []*v1.Pod{
		schedulertest.MakePod("low", 600), schedulertest.MakePod("high", 700, priority(10)), schedulertest.MakePod("small", 300),
		schedulertest.MakePod("foreign", 1, func(p *v1.Pod) { p.Spec.SchedulerName = "other" }),
		schedulertest.MakePod("gated", 1, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }),
		{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}, // what the API would default
	}
	pods[5].Name = "bare"
	out, err := Simulate(bounded(t), cluster, pods, map[string]PolicySource{schedulertest.ProfileName: source},
		func(r ReplicaSource) { replica = r }, 1, nil, explain.Options{Nodes: 10})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, x := range out {
		got += fmt.Sprintf("%s/%s %s %s; ", x.Namespace, x.Pod, x.State, x.Node)
	}
	// high goes first, to n1, which has no room for low then.
	if want := "a/low not-placed ; a/high placed n1; a/small placed n0; a/foreign not-placed ; a/gated gated ; default/bare placed n1; "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if low := out[0]; low.Change == nil || low.Message != "0/2 nodes are available: 2 Insufficient cpu." || len(low.Details) != 2 || low.Change.Nearest.Node != "n0" {
		t.Errorf("low: %+v", low)
	}
	if high := out[1]; high.Why != "n1 is the only node that fits" || high.Details[0].Node != "n1" {
		t.Errorf("high: %+v", high)
	}
}
