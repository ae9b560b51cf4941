package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// Two schedulers that claim the same pods: each pod is bound once, by one of them,
// and the other gives back the place that it had in mind.
func TestTwoSchedulersClaimOnePod(t *testing.T) {
	c := start(t, Config{Seed: 1})
	// The rival binds through the API as anybody.
	rival := &cluster{api: c.api, clock: c.clock}
	rival.policy = schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return rival.sched.Replica() },
		[]sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode}, []sdk.Priority{schedulertest.LeastCPU})
	rival.source = newTestSource(rival.policy)
	won := map[string]bool{}
	deps := rival.deps()
	deps.Bind = func(_ context.Context, b *v1.Binding) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		p := c.byUID[b.UID]
		if p.Spec.NodeName != "" {
			return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, b.Name, fmt.Errorf("pod %s is already assigned to node %q", b.Name, p.Spec.NodeName))
		}
		p = p.DeepCopy()
		p.Spec.NodeName = b.Target.Name
		c.byUID[b.UID], c.taken[b.UID], won[b.Name] = p, true, true
		c.pods.Modify(p)
		return nil
	}
	s, err := New(Config{Seed: 2}, deps)
	if err != nil {
		t.Fatal(err)
	}
	rival.sched = s
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("the rival: %v", err)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); group.Wait() })
	t.Cleanup(stop)
	const pods, nodes = 120, 6
	for i := range nodes {
		c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("n", i), 4000, nil))
	}
	for i := range pods {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 100))
	}
	for i := range pods {
		c.eventuallyBound(t, fmt.Sprint("p", i), "")
	}
	settled := func(s *Scheduler) bool {
		placed, held := 0, 0
		done := make(chan struct{})
		s.inspections <- func(context.Context) {
			for _, p := range s.pods {
				if p.Node != "" {
					placed++
				}
			}
			held = len(s.assumed.list)
			close(done)
		}
		<-done
		return placed == pods && held == 0
	}
	eventually(t, "both know where every pod is, and no place is held for one that is elsewhere", func() bool {
		c.clock.Step(time.Second)
		return settled(c.sched) && settled(s)
	})
	c.stop()
	stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(won) == 0 || len(won) == pods {
		t.Logf("the rival bound %d of %d pods", len(won), pods)
	}
	for _, of := range []*Scheduler{c.sched, s} {
		for uid, p := range of.pods {
			if at := c.byUID[uid].Spec.NodeName; p.Node != at || of.snapshot.ByName[at].Pods[uid] != &p.Pod {
				t.Errorf("pod %s is on %s, and one takes it to be on %q", p.Name, at, p.Node)
			}
		}
		placed := 0
		for _, e := range of.snapshot.ByName {
			placed += len(e.Pods)
		}
		if placed != pods {
			t.Errorf("%d pods are on nodes, want %d", placed, pods)
		}
	}
}

// A node that vanishes while a pod is being bound to it: the API refuses, the pod is
// told nothing that is not so, and goes elsewhere.
func TestNodeVanishesBeforeTheBinding(t *testing.T) {
	var once sync.Once
	c := start(t, Config{}, func(c *cluster) {
		c.nodes.Add(schedulertest.MakeNode("gone", 4000, nil))
		c.refuse = func(string) (err error) {
			once.Do(func() {
				c.nodes.Delete(schedulertest.MakeNode("gone", 4000, nil))
				err = apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "gone")
			})
			return err
		}
	})
	c.addPod(schedulertest.MakePod("p", 1000))
	eventually(t, "it was refused", func() bool { _, known := c.sched.Explain("a", "p"); return known && len(c.bound()) == 0 })
	// Else it may be tried there again, where this API has it.
	eventually(t, "the node is known to be gone", func() (gone bool) {
		c.ask(t, func() { e := c.sched.snapshot.ByName["gone"]; gone = e == nil || e.Object == nil })
		return gone
	})
	c.nodes.Add(schedulertest.MakeNode("there", 1000, nil))
	eventually(t, "it goes elsewhere", func() bool {
		c.clock.Step(time.Second)
		return c.node("p") == "there"
	})
	// Its room on the other node is nobody's.
	c.nodes.Add(schedulertest.MakeNode("gone", 1000, nil))
	c.addPod(schedulertest.MakePod("next", 1000))
	c.eventuallyBound(t, "next", "gone")
}
