package scheduler

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// wary is a predicate over other nodes to which most pods are indifferent: none goes
// to a zone with a pod labelled mean, and a mean one to no zone that has any.
var wary = sdk.Predicate{
	Name: "Wary", Scope: sdk.ScopeCluster, Indifferent: func(pod *sdk.Pod, _ any) bool { return pod.Labels["mean"] == "" },
	Filter: func(r *sdk.Request) sdk.Verdict {
		for n := range r.Cluster.Nodes {
			if n.Labels["zone"] != r.Node.Labels["zone"] {
				continue
			}
			for _, p := range n.Pods {
				if p.Labels["mean"] != "" || r.Pod.Labels["mean"] != "" {
					return sdk.Unfit("node(s) didn't match pod anti-affinity rules")
				}
			}
		}
		return sdk.Fits()
	},
}

// lessens is a score that each pod lowers, steps one that every third does, and packs one
// that each raises.
var (
	lessens = sdk.Priority{Name: "Lessens", Score: func(r *sdk.Request) int64 { return max(0, 10-r.Node.Requested.Pods) }}
	steps   = sdk.Priority{Name: "Steps", Score: func(r *sdk.Request) int64 { return max(0, 10-r.Node.Requested.Pods/3) }}
	packs   = sdk.Priority{Name: "Packs", Score: func(r *sdk.Request) int64 { return min(10, r.Node.Requested.Pods) }}
)

// What is decided about many pods at once is what one decision after the other comes
// to: the same nodes and totals, the same candidates in the record, the same random
// numbers left (SCH-17, SCH-18, decision 5).
func TestAheadIsInvisible(t *testing.T) {
	tests := []struct {
		name       string
		predicates []sdk.Predicate
		priorities []sdk.Priority
		together   bool // pods are decided about at once
	}{
		{"each pod lowers the score", []sdk.Predicate{schedulertest.SelectNode, schedulertest.FitCPU}, []sdk.Priority{lessens}, true},
		{"no score", []sdk.Predicate{schedulertest.SelectNode, schedulertest.FitCPU}, nil, true},
		{"some pods lower the score", []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{steps, schedulertest.LeastCPU}, true},
		{"each pod raises the score", []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{packs}, false},
		{"what scores are measured by changes", []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.FewPods, lessens}, true},
		{"normalised by the plugin", []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.Served("Served", sdk.NormalizePlugin), lessens}, true},
		{"indifferent to others", []sdk.Predicate{wary, schedulertest.FitCPU}, []sdk.Priority{lessens}, true},
		{"aloof to others", []sdk.Predicate{schedulertest.Feuding, schedulertest.FitCPU}, []sdk.Priority{schedulertest.Feared, lessens}, true},
		{"pods that concern each other", []sdk.Predicate{schedulertest.Even, schedulertest.PerZone, schedulertest.FitCPU}, []sdk.Priority{lessens, schedulertest.Crowd}, false},
		{"plugins that say what moved", []sdk.Predicate{schedulertest.Shy, schedulertest.FitCPU}, []sdk.Priority{schedulertest.Middle, schedulertest.Quiet, lessens}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			together := 0
			for seed := range uint64(3) {
				one := newDrive(t, seed, test.predicates, test.priorities)
				one.oneByOne = true
				many := newDrive(t, seed, test.predicates, test.priorities)
				for round := range 6 {
					one.round()
					together += many.round()
					was, is := one.decisions(), many.decisions()
					if len(was) == 0 || len(was) != len(is) {
						t.Fatalf("seed %d, round %d: %d and %d decisions", seed, round, len(was), len(is))
					}
					for name := range was {
						if !reflect.DeepEqual(is[name], was[name]) {
							t.Fatalf("seed %d, round %d, pod %s:\ntogether   %+v\none by one %+v", seed, round, name, is[name], was[name])
						}
					}
					if a, b := one.source, many.source; *a != *b {
						t.Fatalf("seed %d, round %d: other random numbers come next", seed, round)
					}
					if a, b := one.queue.active.Len(), many.queue.active.Len(); a != b || a != 0 {
						t.Fatalf("seed %d, round %d: %d and %d pods wait", seed, round, a, b)
					}
				}
			}
			if (together > 0) != test.together {
				t.Errorf("%d pods were decided about behind others", together)
			}
		})
	}
}

// drive is a scheduler whose cycle the test turns, with changes that a seed makes.
type drive struct {
	*Scheduler
	t      testing.TB
	change *rand.Rand
	now    time.Time
	made   int
}

func newDrive(t testing.TB, seed uint64, predicates []sdk.Predicate, priorities []sdk.Priority) *drive {
	d := &drive{t: t, change: rand.New(rand.NewPCG(seed, 1)), now: time.Now()}
	policy := schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return d.Replica() }, predicates, priorities)
	a := newAPI(t)
	s, err := New(Config{Seed: seed + 1, BindWorkers: 1024, Explain: 1 << 14}, Deps{
		Pods: a.pods, Nodes: a.nodes, Profiles: map[string]PolicySource{schedulertest.ProfileName: newTestSource(policy)}, Bind: a.bind,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Scheduler = s
	for i := range 60 {
		d.node(i)
	}
	d.setObject()
	return d
}

func (d *drive) node(i int) {
	d.snapshot.SetNode(convert.Node(schedulertest.MakeNode(fmt.Sprint("n", i), 1000+1000*int64(d.change.IntN(4)), map[string]string{"zone": fmt.Sprint("z", i%3)})))
}

// setObject makes a Service that selects the pods of one app.
func (d *drive) setObject() {
	d.snapshot.SetObject(&contractv1.Object{
		Key: &contractv1.ObjectKey{Kind: "Service", Namespace: "a", Name: "s"}, Selector: &contractv1.Selector{MatchLabels: map[string]string{"app": "b"}},
	})
}

// round adds pods, decides about all that wait, and changes something. It returns how
// many were decided about behind another.
func (d *drive) round() (together int) {
	for range 1 + d.change.IntN(4) {
		app := string(rune('a' + d.change.IntN(3)))
		cpu := int64(20 + 30*d.change.IntN(3))
		mean := d.change.IntN(12) == 0
		for range 1 + d.change.IntN(40) {
			d.made++
			d.now = d.now.Add(time.Millisecond)
			pod := schedulertest.MakePod(fmt.Sprint("p", d.made), cpu, func(p *v1.Pod) {
				p.Labels = map[string]string{"app": app}
				if mean {
					p.Labels["mean"] = "yes"
				}
			})
			sh, err := newShape(pod)
			if err != nil {
				d.t.Fatal(err)
			}
			d.setPod(pod, sh, d.now)
		}
	}
	for p := d.queue.pop(d.now); p != nil; p = d.queue.pop(d.now) {
		waited := d.queue.active.Len()
		d.schedule(d.t.Context(), p)
		together += waited - d.queue.active.Len()
		for range len(d.binds) {
			r := <-d.binds
			d.bound(bindResult{uid: r.uid, node: r.node})
		}
	}
	switch d.change.IntN(4) {
	case 0:
		d.snapshot.RemoveNode(fmt.Sprint("n", d.change.IntN(60)))
	case 1:
		d.node(d.change.IntN(60))
	default:
		for range d.change.IntN(20) {
			if p := d.pods[schedulertest.MakePod(fmt.Sprint("p", 1+d.change.IntN(d.made)), 1).UID]; p != nil {
				d.removePod(p.UID)
			}
		}
	}
	return together
}

// decisions are those since the last call, without what tells one run from another.
func (d *drive) decisions() map[string]explain.Decision {
	out := map[string]explain.Decision{}
	kept := d.record
	d.record = explain.NewRecord(d.cfg.Explain)
	for key, made := range kept.ByPod {
		copied := *made
		copied.Time = time.Time{}
		if e := made.Snapshot; e != nil {
			seen := *e
			seen.Policy = nil
			copied.Snapshot = &seen
		}
		out[key.Name] = copied
	}
	return out
}
