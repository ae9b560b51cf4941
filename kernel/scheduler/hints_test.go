package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// roomFor is a predicate on labels of nodes, with interests as kube-scheduler's
// own: nodes that come or are labelled, about which it is asked, and pods that go.
func roomFor(asked *atomic.Int64) sdk.Predicate {
	return sdk.Predicate{
		Name: "RoomFor", Events: []sdk.Interest{
			{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeLabel, Helps: func(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
				asked.Add(1)
				return e.NewNode.Labels["room"] == pod.Labels["wants"]
			}},
			{Kind: sdk.KindPod, Actions: sdk.ActionUpdatePodLabel},
		},
		Filter: func(r *sdk.Request) sdk.Verdict {
			if want := r.Pod.Labels["wants"]; want != "" && r.Node.Labels["room"] != want {
				return sdk.Unfit("no room")
			}
			return sdk.Fits()
		},
	}
}

// Only the events that a plugin declared, and says help, bring a pod back; one
// question does for all pods that are alike.
func TestHints(t *testing.T) {
	var asked atomic.Int64
	c, _ := startCycle(t, 1, []any{roomFor(&asked)})
	c.service.Add(&v1.Service{})
	const pods = 50
	for i := range pods {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 1, label("wants", "red")))
	}
	for i := range pods {
		c.eventuallyTried(t, fmt.Sprint("p", i), 1)
	}
	node := schedulertest.MakeNode("n0", 4000, map[string]string{"name": "n0", "room": "blue"})
	c.nodes.Modify(node) // it is asked, and says that it does not help
	eventually(t, "the plugin was asked", func() bool { return asked.Load() == 1 })
	// Room on a node is nothing that the plugin waits for.
	c.addPod(schedulertest.MakePod("other", 1))
	c.eventuallyBound(t, "other", "")
	c.deletePod("other")
	bigger := node.DeepCopy()
	bigger.Status.Allocatable[v1.ResourceCPU] = bigger.Status.Allocatable[v1.ResourceMemory]
	c.nodes.Modify(bigger)
	c.addPod(schedulertest.MakePod("last", 1))
	c.eventuallyBound(t, "last", "n0")
	for i := range pods {
		if d, _ := c.sched.Explain("a", fmt.Sprint("p", i)); d.Attempt != 1 {
			t.Fatalf("p%d was tried %d times", i, d.Attempt)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	red := bigger.DeepCopy()
	red.Labels = map[string]string{"name": "n0", "room": "red"}
	c.nodes.Modify(red)
	for i := range pods {
		c.eventuallyBound(t, fmt.Sprint("p", i), "n0")
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times, want once for all pods", n)
	}
}

// A pod's own change counts if the plugin declared it, without being asked.
func TestOwnChange(t *testing.T) {
	var asked atomic.Int64
	c, _ := startCycle(t, 1, []any{roomFor(&asked)})
	c.addPod(schedulertest.MakePod("p", 1, label("wants", "red")))
	c.eventuallyTried(t, "p", 1)
	c.changePod("p", func(p *v1.Pod) { p.Generation++; p.Annotations = map[string]string{"a": "b"} })
	c.changePod("p", func(p *v1.Pod) { p.Generation++; p.Labels = nil })
	c.eventuallyBound(t, "p", "n0")
	if d, _ := c.sched.Explain("a", "p"); d.Attempt != 2 {
		t.Errorf("attempt %d: the annotation was no reason to try it", d.Attempt)
	}
}

// What happens while a pod waits for a permit on its node is not lost to it if it
// is refused after all; that it leaves the node is no news to itself.
func TestEventsInFlight(t *testing.T) {
	waits := sdk.Permit{
		Name: "Waits",
		Events: []sdk.Interest{{Kind: sdk.KindNode, Actions: sdk.ActionUpdateNodeLabel, Helps: func(_ *sdk.Cluster, _ *sdk.Pod, e *sdk.Event) bool {
			return e.NewNode.Labels["go"] != ""
		}}, {Kind: sdk.KindPod, Actions: sdk.ActionDelete}},
		Permit: func(r *sdk.PermitRequest) sdk.Status {
			if r.Node.Labels["go"] != "" || r.Pod.Labels["held"] == "" {
				return sdk.Status{}
			}
			return sdk.WaitFor(2e9)
		},
	}
	c, _ := startCycle(t, 1, []any{waits})
	c.addPod(schedulertest.MakePod("p", 1, label("held", "yes")))
	eventually(t, "p waits", func() bool { return strings.Contains(c.outcomes("p"), "Wait") })
	c.clock.Step(3e9)
	eventually(t, "p is refused", func() bool { return strings.Contains(c.outcomes("p"), "timeout") })
	// Nobody but itself left a node: it is not tried again.
	c.addPod(schedulertest.MakePod("first", 1))
	c.eventuallyBound(t, "first", "n0")
	if d, _ := c.sched.Explain("a", "p"); d.Attempt != 1 {
		t.Fatalf("attempt %d", d.Attempt)
	}
	// Another's leaving does it.
	c.deletePod("first")
	eventually(t, "p waits again", func() bool {
		d, _ := c.sched.Explain("a", "p")
		return d.Attempt == 2 && strings.Contains(c.outcomes("p"), "Wait")
	})
	// In flight.
	c.nodes.Modify(schedulertest.MakeNode("n0", 4000, map[string]string{"name": "n0", "go": "yes"}))
	c.addPod(schedulertest.MakePod("second", 1))
	c.eventuallyBound(t, "second", "n0")
	c.clock.Step(3e9)
	c.eventuallyBound(t, "p", "n0")
}

// More events than are kept bring everybody back.
func TestTooManyEvents(t *testing.T) {
	s := &Scheduler{queue: testQueue(), waiting: map[types.UID]*held{}}
	p := newEntry("p")
	s.queue.add(p, fresh, t0)
	s.queue.pop(t0)
	s.queue.park(p, byOther, t0)
	for range eventsMax + 1 {
		s.vacated(p.shape)
	}
	if len(s.events) != 1 || s.lost != eventsMax+1 {
		t.Errorf("%d events, lost %d", len(s.events), s.lost)
	}
}
