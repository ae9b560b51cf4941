package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// SCH-2, SCH-21: a pending pod is bound to the best node through the API.
func TestBindsToTheBestNode(t *testing.T) {
	c := start(t, Config{})
	c.addNodes(t, schedulertest.MakeNode("small", 1000, nil))
	c.addNodes(t, schedulertest.MakeNode("big", 4000, nil))
	c.addPod(schedulertest.MakePod("used", 500, func(p *v1.Pod) { p.Spec.NodeName = "small" }))
	c.addPod(schedulertest.MakePod("web", 100))
	c.eventuallyBound(t, "web", "big")
	eventually(t, "event", func() bool {
		return c.hasEvent("web Normal Scheduled Binding: Successfully assigned a/web to big")
	})
	d := c.eventuallyTried(t, "web", 1)
	if d.Node != "big" || d.Feasible != 2 || d.Nodes != 2 || len(d.Scores) != 1 || d.Scores[0].Score != 10 {
		t.Errorf("decision %+v", d)
	}
}

// An assumed pod counts before its binding is seen: the node is never overfull.
func TestAssumedPodsCount(t *testing.T) {
	c := start(t, Config{})
	for i := range 3 {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 1000, nil))
	}
	for i := range 7 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 500))
	}
	eventually(t, "six bound", func() bool { return len(c.bound()) == 6 })
	perNode := map[string]int{}
	unbound := ""
	for i := range 7 {
		name := fmt.Sprint("p", i)
		if node := c.node(name); node != "" {
			perNode[node]++
		} else {
			unbound = name
		}
	}
	for node, n := range perNode {
		if n != 2 {
			t.Errorf("node %s has %d pods of half its CPU", node, n)
		}
	}
	c.eventuallyTried(t, unbound, 1)
	eventually(t, "condition", func() bool { _, n := c.lastCondition(unbound); return n > 0 })
	condition, _ := c.lastCondition(unbound)
	if condition.Type != v1.PodScheduled || condition.Status != v1.ConditionFalse || condition.Reason != "Unschedulable" ||
		condition.Message != "0/3 nodes are available: 3 Insufficient cpu." {
		t.Errorf("condition %+v", condition)
	}
}

// The words are kube-scheduler's: counts a reason, sorted as text, the first
// predicate that fails a node speaks for it, with all its reasons.
func TestFailedSchedulingMessage(t *testing.T) {
	c := start(t, Config{})
	c.addPod(schedulertest.MakePod("early", 100))
	c.eventuallyTried(t, "early", 1)
	if d, _ := c.sched.Explain("a", "early"); d.Message != "no nodes available to schedule pods" {
		t.Errorf("message %q", d.Message)
	}
	c.deletePod("early")
	full := schedulertest.MakeNode("full", 100, nil)
	full.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")} // no pods
	full.Labels = map[string]string{"disk": "ssd"}
	c.addNodes(t, full)
	for i := range 12 {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 4000, nil))
	}
	c.addPod(schedulertest.MakePod("web", 1000, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	const want = "0/13 nodes are available: 1 Insufficient cpu, 1 Too many pods, 12 node(s) didn't match Pod's node affinity/selector."
	eventually(t, "event", func() bool {
		c.clock.Step(11 * time.Second) // an attempt may have come before the last node
		return c.hasEvent("web Warning FailedScheduling Scheduling: " + want)
	})
	eventually(t, "condition", func() bool {
		condition, _ := c.lastCondition("web")
		return condition.Message == want
	})
}

// Conditions of one pod are written one after the other, whichever is quick; of
// those that wait, the last. Each pod is told, however many there are.
func TestConditionsAreWrittenInOrder(t *testing.T) {
	const n = 20
	var mu sync.Mutex
	var got []string
	d := &Deps{Status: func(_ context.Context, _ *v1.Pod, condition *v1.PodCondition, _ *string) error {
		if len(condition.Message)%2 == 0 {
			runtime.Gosched()
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, condition.Message)
		return nil
	}}
	r := newReporter(d)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	var want []string
	for i := range n {
		want = append(want, strings.Repeat("x", i+1))
		r.failure(schedulertest.MakePod("p", 1), v1.PodReasonUnschedulable, want[i], time.Now(), nil)
	}
	for i := range r.patches {
		group.Go(func() { r.runPatches(ctx, &r.patches[i]) })
	}
	last := func(want int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got) > 0 && len(got[len(got)-1]) == want
		}
	}
	eventually(t, "the last is written", last(n))
	for i := range n {
		r.failure(schedulertest.MakePod("p", 1), v1.PodReasonUnschedulable, strings.Repeat("x", n+1+i), time.Now(), nil)
	}
	eventually(t, "the last is written", last(2*n))
	mu.Lock()
	if !slices.IsSortedFunc(got, func(a, b string) int { return len(a) - len(b) }) || got[0] != want[n-1] {
		t.Errorf("order %q", got)
	}
	got = nil
	mu.Unlock()
	for i := range 5000 {
		r.failure(schedulertest.MakePod(fmt.Sprint("p", i), 1), v1.PodReasonUnschedulable, "no", time.Now(), nil)
	}
	eventually(t, "all are told", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) == 5000 })
}

// Each binding has an event, however many there are, and each attempt that fails, also
// one that says what the last said; the pod's condition is written when it is new.
func TestEachAttemptHasAnEvent(t *testing.T) {
	const pods = 1200
	c := start(t, Config{}, func(c *cluster) {
		for i := range 20 {
			c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("n", i), 100000, nil))
		}
		for i := range pods {
			c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 1))
		}
	})
	told := func(part string) (n int) {
		c.api.mu.Lock()
		defer c.api.mu.Unlock()
		for _, e := range c.events {
			if strings.Contains(e, part) {
				n++
			}
		}
		return n
	}
	eventually(t, "all are told", func() bool { return told(" Normal Scheduled Binding: Successfully assigned a/p") == pods })
	c.addPod(schedulertest.MakePod("big", 1000000))
	for attempt := 1; attempt <= 3; attempt++ {
		eventually(t, "an attempt is told", func() bool { return told("big Warning FailedScheduling Scheduling: 0/") >= attempt })
		c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("more", attempt), 1, nil))
		c.clock.Step(time.Minute)
	}
}

// The active queue is by priority, then by time.
func TestPriorityOrder(t *testing.T) {
	c := start(t, Config{BindWorkers: 1}, func(c *cluster) {
		c.addPod(schedulertest.MakePod("low", 1, priority(1)), schedulertest.MakePod("high", 1, priority(100)), schedulertest.MakePod("none", 1), schedulertest.MakePod("mid", 1, priority(50)))
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
	})
	eventually(t, "all bound", func() bool { return len(c.bound()) == 4 })
	if got, want := c.bound(), []string{"high", "mid", "low", "none"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// A pod that fits nowhere comes back when a node is added, after its back-off.
func TestReturnsOnNodeAdd(t *testing.T) {
	c := start(t, Config{})
	c.addNodes(t, schedulertest.MakeNode("n1", 100, nil))
	c.addPod(schedulertest.MakePod("big", 1000))
	c.eventuallyTried(t, "big", 1)
	c.nodes.Add(schedulertest.MakeNode("n2", 2000, nil))
	eventually(t, "bound after its back-off", func() bool {
		c.clock.Step(time.Second)
		return c.node("big") == "n2"
	})
}

// The same for a node that changes, a pod that goes, a claim, a policy.
func TestReturnsOnEvents(t *testing.T) {
	for name, step := range map[string]struct {
		pod  *v1.Pod
		make func(*cluster)
	}{
		"node update": {schedulertest.MakePod("w", 10, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"k": "v"} }), func(c *cluster) {
			c.nodes.Modify(schedulertest.MakeNode("n1", 1000, map[string]string{"k": "v"}))
		}},
		"pod delete": {schedulertest.MakePod("w", 800), func(c *cluster) { c.deletePod("old") }},
		"pod finished": {schedulertest.MakePod("w", 800), func(c *cluster) {
			c.changePod("old", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
		}},
		"pod resized": {schedulertest.MakePod("w", 800), func(c *cluster) {
			c.changePod("old", func(p *v1.Pod) {
				p.Generation++
				p.Spec.Containers[0].Resources.Requests = nil
			})
		}},
		"claim": {schedulertest.MakePod("w", 10, func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}), func(c *cluster) {
			c.claims.Add(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data"}})
		}},
		"policy": {schedulertest.MakePod("w", 5000), func(c *cluster) {
			c.source.swap(schedulertest.NewGuestPolicy(c.t, c.sched.Replica, []sdk.Predicate{schedulertest.SelectNode}, []sdk.Priority{schedulertest.LeastCPU}))
		}},
		"the pod itself": {schedulertest.MakePod("w", 5000), func(c *cluster) {
			c.changePod("w", func(p *v1.Pod) {
				p.Generation++
				p.Spec.Containers[0].Resources.Requests = nil
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, Config{})
			c.addNodes(t, schedulertest.MakeNode("n1", 1000, nil))
			c.addPod(schedulertest.MakePod("old", 500, func(p *v1.Pod) { p.Spec.NodeName = "n1" }))
			c.addPod(schedulertest.MakePod("canary", 10))
			c.eventuallyBound(t, "canary", "n1") // everything before it was seen
			c.addPod(step.pod)
			c.eventuallyTried(t, "w", 1)
			for range 5 { // nothing brings it back by itself
				c.clock.Step(11 * time.Second)
			}
			if c.node("w") != "" {
				t.Fatal("bound before the event")
			}
			step.make(c)
			eventually(t, "bound", func() bool {
				c.clock.Step(time.Second)
				return c.node("w") == "n1"
			})
		})
	}
}

// Five minutes bring everything back.
func TestFlush(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) {
		// They are there from the beginning, or the first attempt finds no node.
		c.nodes.Add(schedulertest.MakeNode("n1", 100, nil))
		c.addPod(schedulertest.MakePod("big", 1000))
	})
	c.eventuallyTried(t, "big", 1)
	c.clock.Step(5*time.Minute + time.Second)
	c.eventuallyTried(t, "big", 2)
	if _, n := c.lastCondition("big"); n > 1 {
		t.Errorf("the same condition was written %d times", n)
	}
}

// 11.4: gates hold a pod back until they are gone; a deleted pod is skipped.
func TestGatesAndDeletion(t *testing.T) {
	now := metav1.Now()
	c, _ := startCycle(t, 0, []any{gates}, func(c *cluster) {
		c.addPod(
			schedulertest.MakePod("gated", 1, priority(9), func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }),
			schedulertest.MakePod("leaving", 1, priority(9), func(p *v1.Pod) { p.DeletionTimestamp = &now }),
			schedulertest.MakePod("foreign", 1, priority(9), func(p *v1.Pod) { p.Spec.SchedulerName = "other" }),
			schedulertest.MakePod("last", 1),
		)
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
	})
	c.eventuallyBound(t, "last", "n")
	if got := c.bound(); len(got) != 1 {
		t.Fatalf("bound %v", got)
	}
	eventually(t, "it is told", func() bool {
		return c.hasEvent("leaving Warning FailedScheduling Scheduling: skip schedule deleting pod: a/leaving")
	})
	c.changePod("gated", func(p *v1.Pod) { p.Generation++; p.Spec.SchedulingGates = nil })
	c.eventuallyBound(t, "gated", "n")
	if _, told := c.lastCondition("leaving"); told != 0 {
		t.Error("a condition was written")
	}
	if _, tried := c.sched.Explain("a", "leaving"); tried {
		t.Error("an attempt was made")
	}
}

// A refused binding frees the place and the pod is tried again.
func TestBindFailure(t *testing.T) {
	refused := 0
	c := start(t, Config{}, func(c *cluster) {
		c.refuse = func(name string) error {
			if name == "first" && refused < 2 {
				refused++
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
		c.addPod(schedulertest.MakePod("first", 1000, priority(1)))
	})
	eventually(t, "bound at last", func() bool {
		c.clock.Step(time.Second)
		return c.node("first") == "n"
	})
	if !c.hasEvent("first Warning FailedScheduling Scheduling: running Bind plugin \"DefaultBinder\": etcdserver: request timed out") {
		t.Errorf("events %q", c.api.events)
	}
}

// A binding that is never seen ends, and the pod is tried again.
func TestAssumedPodExpires(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) {
		c.silent = true
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
		c.addPod(schedulertest.MakePod("ghost", 1000))
	})
	eventually(t, "bound unseen", func() bool { return len(c.bound()) == 1 })
	c.mu.Lock()
	c.silent = false
	c.mu.Unlock()
	eventually(t, "bound again", func() bool {
		c.clock.Step(10 * time.Second)
		return c.node("ghost") == "n"
	})
}

// A node that goes away takes no more pods; its pods still count when it returns.
func TestNodeGoesAndReturns(t *testing.T) {
	c := start(t, Config{})
	n := schedulertest.MakeNode("n", 1000, nil)
	c.addNodes(t, n)
	c.addPod(schedulertest.MakePod("a", 600))
	c.eventuallyBound(t, "a", "n")
	c.nodes.Delete(n.DeepCopy())
	c.addPod(schedulertest.MakePod("b", 600))
	eventually(t, "no node", func() bool {
		d, ok := c.sched.Explain("a", "b")
		return ok && (d.Message == noNodes || d.Message == "0/1 nodes are available: 1 Insufficient cpu.")
	})
	c.nodes.Add(n.DeepCopy())
	eventually(t, "still full", func() bool {
		c.clock.Step(11 * time.Second)
		d, _ := c.sched.Explain("a", "b")
		return d.Attempt > 1 && d.Message == "0/1 nodes are available: 1 Insufficient cpu."
	})
	c.deletePod("a")
	eventually(t, "room", func() bool {
		c.clock.Step(11 * time.Second)
		return c.node("b") == "n"
	})
}

// A plugin that fails closes: no node is chosen without its verdict.
func TestPluginFailure(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) {
		c.policy.Broken.Store(true)
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
		c.addPod(schedulertest.MakePod("p", 100))
	})
	d := c.eventuallyTried(t, "p", 1)
	if d.Node != "" || d.Message != "predicate FitCPU: plugin is broken" {
		t.Errorf("decision %+v", d)
	}
	eventually(t, "condition", func() bool {
		condition, _ := c.lastCondition("p")
		return condition.Reason == "SchedulerError"
	})
	c.policy.Broken.Store(false)
	eventually(t, "bound", func() bool {
		c.clock.Step(time.Second)
		return c.node("p") == "n"
	})
}

// SCH-18: a seed repeats the choices among tied nodes, another makes others.
func TestSeed(t *testing.T) {
	place := func(seed uint64) []string {
		c := start(t, Config{Seed: seed, BindWorkers: 1}, func(c *cluster) {
			for i := range 8 {
				c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("n", i), 100000, nil))
			}
			for i := range 24 {
				c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 0, priority(int32(100-i))))
			}
		})
		defer c.stop()
		eventually(t, "all bound", func() bool { return len(c.bound()) == 24 })
		var out []string
		for i := range 24 {
			out = append(out, c.node(fmt.Sprint("p", i)))
		}
		return out
	}
	one, again, other := place(7), place(7), place(8)
	// Nodes arrive in no order, so indexes differ from run to run: compare the
	// pattern of equal choices.
	if !slices.Equal(pattern(one), pattern(again)) {
		t.Errorf("seed 7 gave %v and %v", one, again)
	}
	if slices.Equal(pattern(one), pattern(other)) {
		t.Errorf("seeds 7 and 8 gave the same %v", one)
	}
}

func pattern(names []string) []int {
	first := map[string]int{}
	var out []int
	for _, n := range names {
		if _, ok := first[n]; !ok {
			first[n] = len(first)
		}
		out = append(out, first[n])
	}
	return out
}

// The replica that a new plugin is fed with equals what an old one was told.
func TestReplicaFeedsLatecomers(t *testing.T) {
	c := start(t, Config{})
	for i := range 5 {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 1000, nil))
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 100))
	}
	for i := range 5 {
		c.eventuallyBound(t, fmt.Sprint("p", i), "")
	}
	late := schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.LeastCPU})
	c.source.swap(late)
	c.addPod(schedulertest.MakePod("last", 950, priority(1)))
	eventually(t, "decided by the new policy", func() bool {
		c.clock.Step(11 * time.Second)
		d, ok := c.sched.Explain("a", "last")
		return ok && d.Node == "" && d.Message == "0/5 nodes are available: 5 Insufficient cpu." || c.node("last") != ""
	})
	c.stop()
	if late.Resets != 1 {
		t.Errorf("fed in full %d times", late.Resets)
	}
	pods := 0
	for n := range late.Guest.Cluster().Nodes {
		pods += len(n.Pods)
	}
	if pods < 5 {
		t.Errorf("the new plugin knows %d pods", pods)
	}
}

// A priority that fails counts 0 for every node; pods are still placed.
func TestPriorityFailure(t *testing.T) {
	broken := sdk.Priority{Name: "Broken", Score: func(*sdk.Request) int64 { panic("no") }}
	c := start(t, Config{}, func(c *cluster) {
		c.policy = schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{broken, schedulertest.LeastCPU})
		c.source.policy.Store(c.policy)
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
		c.addPod(schedulertest.MakePod("p", 100))
	})
	c.eventuallyBound(t, "p", "n")
	if d := c.eventuallyTried(t, "p", 1); len(d.Scores) != 2 || d.Scores[0].Score != 0 || d.Scores[1].Score != 10 {
		t.Errorf("scores %+v", d.Scores)
	}
}

// A policy that arrives late is fed at once, without a pod to place.
func TestPolicyIsFedAtOnce(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) { c.source.policy.Store(nil) })
	c.addNodes(t, schedulertest.MakeNode("n", 1000, nil))
	c.addPod(schedulertest.MakePod("p", 100))
	if d := c.eventuallyTried(t, "p", 1); d.Message != "the plugins of the profile are not ready" {
		t.Errorf("message %q", d.Message)
	}
	c.source.swap(c.policy)
	eventually(t, "bound", func() bool {
		c.clock.Step(time.Second)
		return c.node("p") == "n"
	})
}

// A policy that is being fed decides nothing: the one before goes on, and at the
// start pods wait instead of failing.
func TestPolicyIsPreparedFirst(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) { c.policy.Unprepared.Store(true) })
	c.addNodes(t, schedulertest.MakeNode("n", 1000, nil))
	c.addPod(schedulertest.MakePod("p", 100))
	eventually(t, "the first policy is fed", func() bool { return c.sched.Replica().GetGeneration() > 0 })
	if d, ok := c.sched.Explain("a", "p"); ok {
		t.Errorf("decided by plugins that know nothing: %+v", d)
	}
	c.policy.Unprepared.Store(false)
	c.source.changed <- struct{}{}
	c.eventuallyBound(t, "p", "n")

	next := schedulertest.NewGuestPolicy(t, c.sched.Replica, []sdk.Predicate{schedulertest.ZoneVolume}, []sdk.Priority{schedulertest.FewPods})
	next.Unprepared.Store(true)
	c.source.swap(next)
	c.addPod(schedulertest.MakePod("q", 100))
	if d := c.eventuallyTried(t, "q", 1); d.Node != "n" || len(d.Scores) != len(c.policy.PriorityInfos) {
		t.Errorf("not decided by the policy before: %+v", d)
	}
	next.Unprepared.Store(false)
	c.source.changed <- struct{}{}
	c.addPod(schedulertest.MakePod("r", 100))
	if d := c.eventuallyTried(t, "r", 1); d.Node != "n" || len(d.Scores) != 1 || d.Scores[0].Name != "FewPods" {
		t.Errorf("not decided by the new policy: %+v", d)
	}
}

// A pod that is being deleted when its reservation ends is not tried again.
func TestExpiredAndDeleted(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) {
		c.silent = true
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
		c.addPod(schedulertest.MakePod("ghost", 1000))
	})
	eventually(t, "bound unseen", func() bool { return len(c.bound()) == 1 })
	c.changePod("ghost", func(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now })
	c.mu.Lock()
	c.silent = false
	c.mu.Unlock()
	c.addPod(schedulertest.MakePod("next", 1000))
	eventually(t, "the place is free", func() bool {
		c.clock.Step(10 * time.Second)
		return c.node("next") == "n"
	})
	for range 5 {
		c.clock.Step(10 * time.Second)
	}
	if got := c.bound(); len(got) != 2 {
		t.Errorf("bindings %v", got)
	}
}
