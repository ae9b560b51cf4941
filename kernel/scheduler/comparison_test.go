package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// strictCPU leaves half of each node's CPU free.
var strictCPU = sdk.Predicate{Name: "FitCPU", Filter: func(r *sdk.Request) sdk.Verdict {
	if r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU/2-r.Node.Requested.MilliCPU {
		return sdk.Unfit("Insufficient cpu")
	}
	return sdk.Fits()
}}

// mostCPU prefers what leastCPU does not.
var mostCPU = sdk.Priority{Name: "LeastCPU", Score: func(r *sdk.Request) int64 {
	return r.Node.Requested.MilliCPU * 10 / r.Node.Allocatable.MilliCPU
}}

// shadowing runs a comparison of the cluster's policy with another one.
func shadowing(t *testing.T, c *cluster, cfg explain.ComparisonConfig, candidate func(*schedulertest.GuestPolicy) PolicySource, predicates []sdk.Predicate, priorities []sdk.Priority) *explain.Comparison {
	t.Helper()
	var x *explain.Comparison
	source := func() *contractv1.Delta { return x.Replica() }
	would := schedulertest.NewGuestPolicy(t, source, predicates, priorities)
	for i := range would.PredicateInfos {
		would.PredicateInfos[i].IgnoreFailure = true
	}
	was := schedulertest.NewGuestPolicy(t, source, []sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{schedulertest.LeastCPU})
	cfg.Profiles = map[string]explain.PolicyPair{schedulertest.ProfileName: {Present: newTestSource(was), Candidate: candidate(would)}}
	x, err := explain.NewComparison(cfg)
	if err != nil {
		t.Fatal(err)
	}
	release := c.sched.Follow(x)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	t.Cleanup(func() {
		release()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return x
}

func plain(p *schedulertest.GuestPolicy) PolicySource { return newTestSource(p) }

// The same policy twice agrees about everything, whatever happens to the cluster.
func TestComparisonAgrees(t *testing.T) {
	c := start(t, Config{Seed: 7})
	x := shadowing(t, c, explain.ComparisonConfig{}, plain, []sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{schedulertest.LeastCPU})
	for i := range 6 {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 1000, map[string]string{"zone": fmt.Sprint(i % 2)}))
	}
	for i := range 40 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 100, func(p *v1.Pod) {
			if i%5 == 0 {
				p.Labels = map[string]string{"exclusive": "yes"}
			}
		}))
		if i%10 == 9 {
			c.eventuallyTried(t, fmt.Sprint("p", i), 1)
			c.nodes.Modify(schedulertest.MakeNode("n0", 1000+int64(i), map[string]string{"zone": "1"}))
			c.deletePod(fmt.Sprint("p", i-5))
		}
	}
	for i := range 40 {
		if i%10 != 4 {
			c.eventuallyTried(t, fmt.Sprint("p", i), 1)
		}
	}
	eventually(t, "all compared", func() bool { return x.Waiting() == 0 && x.Report(0).Compared > 20 })
	if r := x.Report(0); r.Disagreed != 0 || r.Unreproduced != 0 || r.Failed != 0 || r.Dropped != 0 {
		t.Errorf("report %+v", r)
	}
}

// Where a candidate differs is told by pod, node and plugin, with what follows
// for the placement; the decisions are those of the policy in force.
func TestComparisonDisagrees(t *testing.T) {
	c := start(t, Config{})
	c.addNodes(t, schedulertest.MakeNode("small", 1000, nil))
	c.addNodes(t, schedulertest.MakeNode("big", 4000, nil))
	c.addPod(schedulertest.MakePod("old", 1000, func(p *v1.Pod) { p.Spec.NodeName = "big" }))
	x := shadowing(t, c, explain.ComparisonConfig{Keep: 2}, plain, []sdk.Predicate{strictCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{mostCPU})
	// Until both sides are fed there is nothing to compare; the first pods see to that.
	warm := 0
	eventually(t, "compared", func() bool {
		c.addPod(schedulertest.MakePod(fmt.Sprint("warm", warm), 1, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"none": "such"} }))
		c.eventuallyTried(t, fmt.Sprint("warm", warm), 1)
		warm++
		return x.Report(0).Compared > 0
	})
	last := x.Report(0).Disagreed
	if last != 0 {
		t.Fatalf("both sides refuse: %+v", x.Report(0))
	}
	c.addPod(schedulertest.MakePod("a", 600)) // small: full for the candidate; scores turned around
	c.eventuallyBound(t, "a", "small")
	eventually(t, "a disagreement", func() bool { return x.Report(0).Disagreed == 1 })
	r := x.Report(0)
	d := r.Disagreements[0]
	if r.Elsewhere != 1 || d.Pod != "a" || d.Node != "small" || d.Candidate != "big" || !d.Elsewhere || d.OneOf != 1 || d.Nodes != 2 {
		t.Fatalf("disagreement %+v of %+v", d, r)
	}
	if v := d.Answers[0]; v.Node != "small" || v.Plugin != "FitCPU" || v.Present != "fits" || v.Candidate != "FitCPU: Insufficient cpu" {
		t.Errorf("verdict %+v", v)
	}
	if s := d.Answers[1]; s.Node != "big" || s.Plugin != "LeastCPU" || s.Present != "7" || s.Candidate != "2" || s.PresentTotal != 7 || s.CandidateTotal != 2 {
		t.Errorf("score %+v", s)
	}
	if len(r.Plugins) != 2 || r.Plugins[0].Decisions != 1 || r.Plugins[0].Nodes != 1 {
		t.Errorf("plugins %+v", r.Plugins)
	}
	for i := range 3 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("b", i), 10))
		c.eventuallyBound(t, fmt.Sprint("b", i), "")
	}
	eventually(t, "four disagreements", func() bool { return x.Report(0).Disagreed == 4 })
	if kept := x.Report(0).Disagreements; len(kept) != 2 || kept[1].Sequence != 4 || len(x.Report(3).Disagreements) != 1 {
		t.Errorf("kept %+v", kept)
	}
}

// stuckSource hangs in each question until it is let go.
type stuckSource struct {
	*schedulertest.GuestPolicy
	hold chan struct{}
}

func (s *stuckSource) Policy() Policy           { return s }
func (s *stuckSource) Changed() <-chan struct{} { return nil }
func (s *stuckSource) Filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error {
	select {
	case <-s.hold:
	case <-ctx.Done():
		return ctx.Err()
	}
	return s.GuestPolicy.Filter(ctx, i, class, nodes, out)
}

// Evaluate leaves everything to Filter.
func (s *stuckSource) Evaluate(context.Context, *contractv1.Evaluation) {}

// A candidate that hangs holds up nobody: pods go on being bound, what does not
// fit into the queue is dropped and counted, and the comparison finds back.
func TestComparisonHangs(t *testing.T) {
	c := start(t, Config{})
	stuck := &stuckSource{hold: make(chan struct{})}
	x := shadowing(t, c, explain.ComparisonConfig{Queue: 8}, func(p *schedulertest.GuestPolicy) PolicySource { stuck.GuestPolicy = p; return stuck },
		[]sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{schedulertest.LeastCPU})
	c.addNodes(t, schedulertest.MakeNode("n", 100_000, nil))
	for i := range 90 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 10))
	}
	eventually(t, "all bound", func() bool { return len(c.bound()) == 90 })
	if r := x.Report(0); r.Dropped == 0 || r.Compared != 0 {
		t.Errorf("with a candidate that hangs: %+v", r)
	}
	close(stuck.hold)
	more := 0
	eventually(t, "compared again", func() bool {
		c.addPod(schedulertest.MakePod(fmt.Sprint("q", more), 10))
		c.eventuallyBound(t, fmt.Sprint("q", more), "n")
		more++
		return x.Report(0).Compared > 2
	})
	if r := x.Report(0); r.Disagreed != 0 || r.Unreproduced != 0 {
		t.Errorf("after that: %+v", r)
	}
}

// A candidate that fails is counted and told, and takes part in nothing.
func TestComparisonFails(t *testing.T) {
	c := start(t, Config{})
	x := shadowing(t, c, explain.ComparisonConfig{}, func(p *schedulertest.GuestPolicy) PolicySource { p.Broken.Store(true); return newTestSource(p) },
		[]sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{schedulertest.LeastCPU})
	c.addNodes(t, schedulertest.MakeNode("n", 100_000, nil))
	tried := 0
	eventually(t, "failed", func() bool {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", tried), 10))
		c.eventuallyBound(t, fmt.Sprint("p", tried), "n")
		tried++
		return x.Report(0).Failed > 0
	})
	if r := x.Report(0); r.Compared != 0 || !strings.Contains(r.LastFailure, "candidate: predicate FitCPU did not answer") {
		t.Errorf("report %+v", r)
	}
}
