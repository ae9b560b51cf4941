package scheduler

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Pods of a profile that is added while the scheduler runs are decided about, also
// those that were there before; those of one that is removed wait, until it is back.
func TestProfilesChangeLive(t *testing.T) {
	c := start(t, Config{})
	of := func(profile string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.SchedulerName = profile }
	}
	c.addNodes(t, schedulertest.MakeNode("n", 4000, nil))
	c.addPod(schedulertest.MakePod("before", 100, of("other")), schedulertest.MakePod("bystander", 100))
	c.eventuallyBound(t, "bystander", "n")
	if _, err := c.sched.Why(bounded(t), "a", "before", explain.Options{}); !errors.Is(err, ErrUnknownPod) {
		t.Errorf("a pod of no profile is explained: %v", err)
	}

	second := newTestSource(schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.LeastCPU}))
	both := map[string]PolicySource{schedulertest.ProfileName: c.source, "other": second}
	if err := c.sched.SetProfiles(both); err != nil {
		t.Fatal(err)
	}
	c.eventuallyBound(t, "before", "n")
	c.addPod(schedulertest.MakePod("after", 100, of("other")))
	c.eventuallyBound(t, "after", "n")

	// One that waits for room leaves the queue with its profile.
	c.addPod(schedulertest.MakePod("large", 9000, of("other")))
	c.eventuallyTried(t, "large", 1)
	if err := c.sched.SetProfiles(map[string]PolicySource{schedulertest.ProfileName: c.source}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the profile is gone", func() bool {
		_, err := c.sched.Why(bounded(t), "a", "large", explain.Options{})
		return errors.Is(err, ErrUnknownPod)
	})
	c.addNodes(t, schedulertest.MakeNode("wide", 16000, nil))
	c.addPod(schedulertest.MakePod("waits", 100, of("other")), schedulertest.MakePod("still", 5000))
	c.eventuallyBound(t, "still", "wide")
	for _, pod := range []string{"large", "waits"} {
		if node := c.node(pod); node != "" {
			t.Errorf("%s is on %s and its profile is gone", pod, node)
		}
	}

	if err := c.sched.SetProfiles(both); err != nil {
		t.Fatal(err)
	}
	c.eventuallyBound(t, "large", "wide")
	c.eventuallyBound(t, "waits", "")
	if err := c.sched.SetProfiles(map[string]PolicySource{"third": nil}); err == nil {
		t.Error("a profile without a source of policies was taken")
	}
}

// A profile whose policy comes later than itself decides from then on.
func TestProfileBeforeItsPolicy(t *testing.T) {
	c := start(t, Config{})
	c.addNodes(t, schedulertest.MakeNode("n", 4000, nil))
	late := &testSource{changed: make(chan struct{}, 1)}
	if err := c.sched.SetProfiles(map[string]PolicySource{schedulertest.ProfileName: c.source, "late": late}); err != nil {
		t.Fatal(err)
	}
	c.addPod(schedulertest.MakePod("early", 100, func(p *v1.Pod) { p.Spec.SchedulerName = "late" }), schedulertest.MakePod("web", 100))
	c.eventuallyBound(t, "web", "n")
	c.eventuallyTried(t, "early", 1)
	late.swap(schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, []sdk.Predicate{schedulertest.FitCPU}, []sdk.Priority{schedulertest.LeastCPU}))
	c.eventuallyBound(t, "early", "n")
}
