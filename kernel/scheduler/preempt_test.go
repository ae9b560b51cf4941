package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// trier has the host try all nodes that fewer pods might make fit, in the order of
// their names, and takes the candidate with the fewest victims. Pods labelled
// guarded violate a budget.
func trier(asked *atomic.Int64) sdk.PostFilter {
	return sdk.PostFilter{
		Name: "Trier",
		Try: func(f *sdk.Failure) (sdk.Trial, sdk.Status) {
			if len(f.Leaving) > 0 {
				return sdk.Trial{}, sdk.Refuse("waits for " + f.Leaving[0].Name)
			}
			var t sdk.Trial
			for _, r := range f.Refused {
				if !r.Unresolvable {
					t.Nodes = append(t.Nodes, r.Node)
				}
			}
			slices.SortFunc(t.Nodes, func(a, b *sdk.Node) int { return strings.Compare(a.Name, b.Name) })
			t.Wanted = len(t.Nodes)
			return t, sdk.Status{}
		},
		Victims: func(_ *sdk.Cluster, pod *sdk.QueuedPod, n *sdk.Node) sdk.Victims {
			asked.Add(1)
			var guarded, others []*sdk.Pod
			for _, p := range n.Pods {
				switch {
				case p.Priority >= pod.Priority:
				case p.Labels["guarded"] != "":
					guarded = append(guarded, p)
				default:
					others = append(others, p)
				}
			}
			for _, list := range [][]*sdk.Pod{guarded, others} {
				slices.SortFunc(list, func(a, b *sdk.Pod) int {
					if a.Priority != b.Priority {
						return int(b.Priority - a.Priority)
					}
					if a.StartTimeUnix != b.StartTimeUnix {
						return int(a.StartTimeUnix - b.StartTimeUnix)
					}
					return strings.Compare(a.UID, b.UID)
				})
			}
			if len(guarded)+len(others) == 0 {
				return sdk.Victims{Reasons: []string{"nobody may go"}}
			}
			return sdk.Victims{Pods: append(guarded, others...), Violations: len(guarded)}
		},
		Choose: func(t *sdk.Tried) (sdk.Nomination, sdk.Status) {
			if len(t.Candidates) == 0 {
				var words []string
				for _, r := range t.Refused {
					words = append(words, r.Node.Name+": "+strings.Join(r.Reasons, "; "))
				}
				slices.Sort(words)
				return sdk.Nomination{}, sdk.Refuse(strings.Join(words, ", ")).Withdraw()
			}
			best := slices.MinFunc(t.Candidates, func(a, b sdk.Candidate) int {
				if a.Violations != b.Violations {
					return a.Violations - b.Violations
				}
				if len(a.Victims) != len(b.Victims) {
					return len(a.Victims) - len(b.Victims)
				}
				return strings.Compare(a.Node.Name, b.Node.Name)
			})
			return sdk.Nomination{Node: best.Node, Victims: best.Victims}, sdk.Status{}
		},
	}
}

// sampler is trier by Sample and Rank.
func sampler(asked *atomic.Int64) sdk.PostFilter {
	p := trier(asked)
	p.Try = nil
	p.Sample = func(f *sdk.Failure) (sdk.Sample, sdk.Status) {
		if f.Helpful == 0 {
			return sdk.Sample{}, sdk.Refuse("nothing helps").Withdraw()
		}
		return sdk.Sample{Wanted: 100}, sdk.Status{}
	}
	p.Rank = func(c *sdk.Candidate) []int64 {
		var number int64
		fmt.Sscanf(c.Node.Name, "n%d", &number)
		return []int64{int64(c.Violations), int64(len(c.Victims)), number}
	}
	return p
}

// triers are the ways of a plugin that has the host try.
var triers = map[string]func(*atomic.Int64) sdk.PostFilter{"listed": trier, "sampled": sampler}

// evicting is a cluster whose victims go at once, and keeps book.
func evicting(j *journal) func(*cluster) {
	return func(c *cluster) {
		c.evict = func(_ context.Context, victim *v1.Pod, _ *v1.PodCondition) error {
			j.note("evict %s", victim.Name)
			c.deletePod(victim.Name)
			return nil
		}
		c.nominate = func(_ context.Context, p *v1.Pod, node string) error {
			j.note("nominate %s %q", p.Name, node)
			return nil
		}
	}
}

// on puts a bound pod on a node.
func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

// The host takes all that may go off a node and spares one after the other, in the
// plugin's order, as long as the pod fits.
func TestTrialSparesInOrder(t *testing.T) {
	var asked atomic.Int64
	for _, tc := range []struct {
		name string
		pods []*v1.Pod
		cpu  int64
		want string
	}{
		{"the least important goes", []*v1.Pod{
			schedulertest.MakePod("a", 2000, priority(1), on("n0")), schedulertest.MakePod("b", 2000, priority(2), on("n0")), schedulertest.MakePod("c", 4000, priority(20), on("n1")),
		}, 2000, "evict a"},
		{"fewer victims", []*v1.Pod{
			schedulertest.MakePod("a", 2000, priority(1), on("n0")), schedulertest.MakePod("b", 2000, priority(2), on("n0")), schedulertest.MakePod("c", 4000, priority(5), on("n1")),
		}, 4000, "evict c"},
		{"a budget is kept", []*v1.Pod{
			schedulertest.MakePod("a", 4000, priority(1), label("guarded", "yes"), on("n0")), schedulertest.MakePod("b", 2000, priority(5), on("n1")), schedulertest.MakePod("c", 2000, priority(5), on("n1")),
		}, 3000, "evict b evict c"},
		{"of a node, the one outside of the budget goes", []*v1.Pod{
			schedulertest.MakePod("a", 2000, priority(1), label("guarded", "yes"), on("n0")), schedulertest.MakePod("b", 2000, priority(5), on("n0")), schedulertest.MakePod("c", 4000, priority(10), on("n1")),
		}, 1000, "evict b"},
		{"no use", []*v1.Pod{
			schedulertest.MakePod("a", 1000, priority(1), on("n0")), schedulertest.MakePod("b", 3000, priority(20), on("n0")), schedulertest.MakePod("c", 4000, priority(10), on("n1")),
		}, 2000, "n0: Insufficient cpu, n1: nobody may go"},
	} {
		for way, plugin := range triers {
			t.Run(tc.name+"/"+way, func(t *testing.T) {
				var j journal
				c, _ := startCycle(t, 2, []any{plugin(&asked)}, evicting(&j), func(c *cluster) { c.addPod(tc.pods...) })
				c.addPod(schedulertest.MakePod("p", tc.cpu, priority(10)))
				if !strings.HasPrefix(tc.want, "evict") {
					if d := c.eventuallyTried(t, "p", 1); !strings.HasSuffix(d.Message, " "+tc.want) {
						t.Errorf("message %q, want …%q", d.Message, tc.want)
					}
					return
				}
				c.eventuallyBound(t, "p", "")
				got := strings.Fields(strings.ReplaceAll(j.all(), "evict ", "evict-"))
				got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "evict-") })
				slices.Sort(got)
				if all := strings.ReplaceAll(strings.Join(got, " "), "-", " "); all != tc.want {
					t.Errorf("did %q, want %q", all, tc.want)
				}
				if d := c.eventuallyTried(t, "p", 2); len(d.Outcomes) == 0 || !strings.Contains(d.Outcomes[len(d.Outcomes)-1].Reasons[0], "it was nominated to") {
					t.Errorf("outcomes %+v", d.Outcomes)
				}
			})
		}
	}
}

// What was found out about a node for a class is not found out again while
// nothing there changed; the plugins' replicas are what they were before.
func TestTrialsAreKept(t *testing.T) {
	var asked atomic.Int64
	var j journal
	c, policy := startCycle(t, 5, []any{trier(&asked)}, evicting(&j), func(c *cluster) {
		for i := range 5 {
			c.addPod(schedulertest.MakePod(fmt.Sprint("low", i), 4000, priority(1), on(fmt.Sprint("n", i))))
		}
	})
	for i := range 5 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("high", i), 4000, priority(10)))
		c.eventuallyBound(t, fmt.Sprint("high", i), "")
	}
	// Five nodes at first; afterwards only those that were touched: the one that
	// was freed, and taken.
	if n := asked.Load(); n > 5+3*5 {
		t.Errorf("%d nodes were asked about", n)
	}
	c.stop()
	for n := range policy.Guest.Cluster().Nodes {
		// The last binding may not have been told.
		if n.Requested.MilliCPU != 4000*int64(len(n.Pods)) || len(n.Pods) > 1 {
			t.Errorf("node %s has %d pods that request %d", n.Name, len(n.Pods), n.Requested.MilliCPU)
		}
	}
}

// apart is a predicate over the cluster: no two pods of a colour in a zone.
var apart = sdk.Predicate{Name: "Apart", Scope: sdk.ScopeCluster, Filter: func(r *sdk.Request) sdk.Verdict {
	for n := range r.Cluster.Nodes {
		if n.Labels["zone"] != r.Node.Labels["zone"] {
			continue
		}
		for _, p := range n.Pods {
			if colour := r.Pod.Labels["colour"]; colour != "" && p.Labels["colour"] == colour {
				return sdk.Unfit("same colour")
			}
		}
	}
	return sdk.Fits()
}}

// Where a predicate looks beyond a node, a candidate is tried with nobody else
// taken off: evicting on one node of a zone is of no use while the other has one too.
func TestTrialLooksBeyondANode(t *testing.T) {
	var asked atomic.Int64
	var j journal
	zone := func(name, zone string) *v1.Node {
		return schedulertest.MakeNode(name, 4000, map[string]string{"name": name, "zone": zone})
	}
	c, _ := startCycle(t, 0, []any{apart, trier(&asked)}, evicting(&j), func(c *cluster) {
		c.nodes.Add(zone("n0", "a"))
		c.nodes.Add(zone("n1", "a"))
		c.nodes.Add(zone("n2", "b"))
		c.addPod(
			schedulertest.MakePod("a0", 1000, priority(1), label("colour", "red"), on("n0")), schedulertest.MakePod("a1", 1000, priority(1), label("colour", "red"), on("n1")),
			schedulertest.MakePod("b0", 1000, priority(1), label("colour", "red"), on("n2")), schedulertest.MakePod("b1", 1000, priority(1), on("n2")),
		)
	})
	c.addPod(schedulertest.MakePod("p", 1000, priority(10), label("colour", "red")))
	c.eventuallyBound(t, "p", "n2")
	if strings.Contains(j.all(), "evict a") || strings.Contains(j.all(), "evict b1") || !strings.Contains(j.all(), "evict b0") {
		t.Errorf("did %s", j.all())
	}
}

// The room of a nominated pod is kept from pods of its priority and below, not
// from those above; with the nomination it ends.
func TestNominatedRoomIsKept(t *testing.T) {
	patient := sdk.PostFilter{Name: "Patient", Nominate: func(*sdk.Failure) (sdk.Nomination, sdk.Status) {
		return sdk.Nomination{}, sdk.Refuse("waits")
	}}
	nominated := func(p *v1.Pod) { p.Status.NominatedNodeName = "n0" }
	elsewhere := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "x"} }
	c, policy := startCycle(t, 1, []any{patient})
	c.addPod(schedulertest.MakePod("holder", 3000, priority(10), nominated, elsewhere))
	c.eventuallyTried(t, "holder", 1)
	c.addPod(schedulertest.MakePod("equal", 2000, priority(10)), schedulertest.MakePod("low", 2000, priority(1)))
	if d := c.eventuallyTried(t, "equal", 1); d.Node != "" || !strings.HasPrefix(d.Message, "0/1 nodes are available: 1 Insufficient cpu.") {
		t.Errorf("equal: %q %q", d.Node, d.Message)
	}
	if d := c.eventuallyTried(t, "low", 1); d.Node != "" {
		t.Errorf("low took the place: %+v", d)
	}
	x, err := c.sched.Why(bounded(t), "a", "low", explain.Options{})
	if err != nil || !strings.Contains(x.Note, "room on n0 is kept for a/holder") {
		t.Errorf("explained as %q, %v", x.Note, err)
	}
	c.addPod(schedulertest.MakePod("small", 1000, priority(1)))
	c.eventuallyBound(t, "small", "n0")
	c.addPod(schedulertest.MakePod("above", 2000, priority(11)))
	c.eventuallyBound(t, "above", "n0")
	c.deletePod("above")
	c.deletePod("holder")
	c.eventuallyBound(t, "equal", "n0")
	c.stop()
	for n := range policy.Guest.Cluster().Nodes {
		if n.Requested.MilliCPU != 3000 {
			t.Errorf("the replica has %d requested", n.Requested.MilliCPU)
		}
	}
}

// While its victims are being evicted a pod is not tried; if that fails it is, at
// once.
func TestPreemptorWaits(t *testing.T) {
	var asked atomic.Int64
	release := make(chan error)
	c, _ := startCycle(t, 1, []any{trier(&asked)}, func(c *cluster) {
		c.evict = func(ctx context.Context, _ *v1.Pod, _ *v1.PodCondition) error {
			select {
			case err := <-release:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c.nominate = func(context.Context, *v1.Pod, string) error { return nil }
		c.addPod(schedulertest.MakePod("low", 4000, priority(1), on("n0")))
	})
	c.addPod(schedulertest.MakePod("p", 4000, priority(10)))
	c.eventuallyTried(t, "p", 1)
	c.deletePod("low") // which would help
	c.addPod(schedulertest.MakePod("other", 4000, priority(5)))
	if d := c.eventuallyTried(t, "other", 1); d.Node != "" {
		t.Fatal("another took the place")
	}
	if d, _ := c.sched.Explain("a", "p"); d.Attempt != 1 {
		t.Fatalf("attempt %d while its victims go", d.Attempt)
	}
	release <- errors.New("no")
	c.eventuallyBound(t, "p", "n0")
}

// A pod whose victims are on their way out is not to have more of them.
func TestStanding(t *testing.T) {
	var asked atomic.Int64
	now := metav1.Now()
	c, _ := startCycle(t, 2, []any{trier(&asked)}, func(c *cluster) {
		c.evict = func(_ context.Context, victim *v1.Pod, condition *v1.PodCondition) error {
			c.changePod(victim.Name, func(p *v1.Pod) {
				p.Generation++
				p.DeletionTimestamp = &now
				p.Status.Conditions = append(p.Status.Conditions, *condition)
			})
			return nil
		}
		c.nominate = func(_ context.Context, p *v1.Pod, node string) error {
			c.changePod(p.Name, func(p *v1.Pod) { p.Status.NominatedNodeName = node })
			return nil
		}
		c.addPod(schedulertest.MakePod("low", 4000, priority(1), on("n0")), schedulertest.MakePod("high", 4000, priority(20), on("n1")))
	})
	c.addPod(schedulertest.MakePod("p", 4000, priority(10)))
	eventually(t, "it waits for its victim", func() bool {
		c.clock.Step(time.Second)
		d, _ := c.sched.Explain("a", "p")
		return strings.HasSuffix(d.Message, "waits for low")
	})
	c.deletePod("low")
	c.eventuallyBound(t, "p", "n0")
}
