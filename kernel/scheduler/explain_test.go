package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func answerOf(t *testing.T, a explain.NodeAccount, predicate string) explain.VerdictAccount {
	t.Helper()
	for _, v := range a.Verdicts {
		if v.Predicate == predicate {
			return v
		}
	}
	t.Fatalf("node %s has no verdict of %s: %+v", a.Node, predicate, a)
	return explain.VerdictAccount{}
}

// A bound pod is explained by the decision as it was made, even when nothing of
// it would hold today.
func TestWhyDecision(t *testing.T) {
	c := start(t, Config{})
	for i, cpu := range []int64{1000, 4000, 100} {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), cpu, map[string]string{"disk": "ssd"}))
	}
	c.addNodes(t, schedulertest.MakeNode("slow", 9000, nil))
	onNode := func(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = name } }
	c.addPod(schedulertest.MakePod("x0", 500, onNode("n0")), schedulertest.MakePod("x1", 800, onNode("n1")))
	for name, node := range map[string]string{"x0": "n0", "x1": "n1"} {
		eventually(t, name+" on "+node, func() bool {
			x, err := c.sched.Why(bounded(t), "a", name, explain.Options{})
			return err == nil && x.Node == node && x.Nodes == 4
		})
	}
	c.addPod(schedulertest.MakePod("a", 500, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	c.eventuallyBound(t, "a", "n1")
	eventually(t, "seen bound", func() bool {
		x, err := c.sched.Why(bounded(t), "a", "a", explain.Options{})
		return err == nil && x.State == "bound"
	})
	c.addPod(schedulertest.MakePod("later", 3500))
	c.eventuallyBound(t, "later", "slow")
	c.nodes.Delete(schedulertest.MakeNode("n0", 1000, nil))
	var now *explain.Explanation
	eventually(t, "one node less", func() bool {
		var err error
		now, err = c.sched.Why(bounded(t), "a", "a", explain.Options{Now: true})
		return err == nil && now.Nodes == 3
	})
	x, err := c.sched.Why(bounded(t), "a", "a", explain.Options{Nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	if x.Source != explain.SourceDecision || x.Node != "n1" || x.Nodes != 4 || x.Feasible != 2 || x.Attempt != 1 || x.Omitted != 0 || len(x.Details) != 4 {
		t.Fatalf("explanation %+v", x)
	}
	if want := "n1 has the best total, 8; the next is n0 with 5 (LeastCPU +3)"; x.Why != want {
		t.Errorf("why %q; want %q", x.Why, want)
	}
	first := x.Details[0]
	if first.Node != "n1" || !first.Chosen || first.Scores[0] != (explain.ScoreAccount{Priority: "LeastCPU", Raw: 8, Score: 8, Weight: 1, Weighted: 8}) {
		t.Errorf("the winner: %+v", first)
	}
	for _, a := range x.Details[2:] {
		switch a.Node {
		case "n2":
			if v := answerOf(t, a, "FitCPU"); v.Answer != explain.AnswerRefuses || v.Reasons[0] != "Insufficient cpu" {
				t.Errorf("n2: %+v", v)
			}
			if v := answerOf(t, a, "SelectNode"); v.Answer != explain.AnswerNotAsked {
				t.Errorf("n2: a predicate after the one that refused: %+v", v)
			}
		case "slow":
			if v := answerOf(t, a, "SelectNode"); v.Answer != explain.AnswerRefuses {
				t.Errorf("slow: %+v", v)
			}
			if v := answerOf(t, a, "FitCPU"); v.Answer != explain.AnswerFits {
				t.Errorf("slow: %+v", v)
			}
		default:
			t.Errorf("third and fourth: %s", a.Node)
		}
	}
	// Asked for what would be so now, the pod counts as not there.
	if now.Source != explain.SourceEvaluation || now.Note == "" || now.Details[0].Node != "n1" || now.Details[0].Scores[0].Raw != 8 {
		t.Errorf("evaluation %+v", now)
	}
	if _, err := c.sched.Why(bounded(t), "a", "nobody", explain.Options{}); !errors.Is(err, ErrUnknownPod) {
		t.Errorf("a pod that is not there: %v", err)
	}
}

// Every predicate is asked about every node for a pod that fits nowhere, and
// what would have to change is counted.
func TestWhyPending(t *testing.T) {
	c := start(t, Config{})
	ssd := map[string]string{"disk": "ssd"}
	c.addNodes(t, schedulertest.MakeNode("full", 1000, ssd))
	c.addNodes(t, schedulertest.MakeNode("fuller", 500, ssd))
	c.addNodes(t, schedulertest.MakeNode("other", 9000, nil))
	c.addNodes(t, schedulertest.MakeNode("both", 100, nil))
	c.addPod(schedulertest.MakePod("p", 2000, func(p *v1.Pod) { p.Spec.NodeSelector = ssd }))
	c.eventuallyTried(t, "p", 1)
	x, err := c.sched.Why(bounded(t), "a", "p", explain.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if x.Source != explain.SourceEvaluation || x.State != "unschedulable" || x.Node != "" || x.Change == nil || len(x.Details) != 4 ||
		x.Message != "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 3 Insufficient cpu." {
		t.Fatalf("explanation %+v", x)
	}
	if got := x.Change.Predicates; len(got) != 2 || got[0] != (explain.Obstacle{Predicate: "FitCPU", Refused: 3, Alone: 2}) || got[1] != (explain.Obstacle{Predicate: "SelectNode", Refused: 2, Alone: 1}) {
		t.Errorf("predicates in the way: %+v", got)
	}
	cpu := x.Change.Reasons[0]
	if cpu.Reason != "Insufficient cpu" || cpu.Least == nil || cpu.Least.Node != "full" || cpu.Least.Missing() != "1" || cpu.Least.Text != "asks for 2, 1 of 1 free" {
		t.Errorf("least that is lacking: %+v %+v", cpu, cpu.Least)
	}
	last := x.Details[3]
	if last.Node != "both" || answerOf(t, last, "FitCPU").Answer != explain.AnswerRefuses || answerOf(t, last, "SelectNode").Answer != explain.AnswerRefuses {
		t.Errorf("the farthest node: %+v", last)
	}
	if n := x.Change.Nearest; n == nil || n.Node != "full" {
		t.Errorf("nearest %+v", n)
	}
}

// What a decision keeps does not change under who reads it.
func TestEvidenceIsKept(t *testing.T) {
	c := start(t, Config{})
	for i := range 3 {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 1000, nil))
	}
	for i := range 3 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 900))
	}
	for i := range 3 {
		c.eventuallyBound(t, fmt.Sprint("p", i), "")
	}
	feasible := map[int]bool{}
	for i := range 3 {
		d, ok := c.sched.record.Last("a", fmt.Sprint("p", i))
		if !ok {
			t.Fatalf("p%d is not kept", i)
		}
		fit := 0
		for n := range uint32(d.Snapshot.Nodes()) {
			if d.Snapshot.Fits(n) {
				fit++
			}
		}
		if fit != d.Feasible || len(d.Snapshot.Top) != fit || d.Snapshot.Names[d.Snapshot.Winner] != d.Node {
			t.Errorf("p%d: %d nodes fit in %+v of %+v", i, fit, d.Snapshot, d)
		}
		feasible[fit] = true
	}
	if len(feasible) != 3 {
		t.Errorf("the decisions had %v nodes that fit; want 3, 2 and 1", feasible)
	}
}
