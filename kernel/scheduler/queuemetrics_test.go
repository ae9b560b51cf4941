package scheduler

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// Where pods wait, what brought them there and what preemption did is counted
// under kube-scheduler's names.
func TestQueueMetrics(t *testing.T) {
	var asked atomic.Int64
	var j journal
	var m *Metrics
	c, _ := startCycle(t, 1, []any{gates, trier(&asked)}, evicting(&j), func(c *cluster) {
		m = NewMetrics()
		c.counts = m
		c.addPod(schedulertest.MakePod("low", 3000, priority(1), on("n0")))
	})
	c.addPod(schedulertest.MakePod("big", 9000), schedulertest.MakePod("gated", 1, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }))
	c.eventuallyTried(t, "big", 1)
	c.addPod(schedulertest.MakePod("high", 4000, priority(10)))
	c.eventuallyBound(t, "high", "n0")
	is := func(name string, want float64, labels map[string]string) {
		t.Helper()
		var got float64
		eventually(t, name, func() bool { got = sample(t, m, name, labels); return got == want })
	}
	is("scheduler_pending_pods", 1, map[string]string{"queue": "unschedulable"})
	is("scheduler_pending_pods", 1, map[string]string{"queue": "gated"})
	is("scheduler_pending_pods", 0, map[string]string{"queue": "active"})
	is("scheduler_unschedulable_pods", 1, map[string]string{"plugin": "FitCPU", "profile": schedulertest.ProfileName})
	is("scheduler_preemption_victims", 1, nil)
	is("scheduler_pod_scheduling_attempts", 1, nil)
	is("scheduler_pod_scheduling_sli_duration_seconds", 1, map[string]string{"attempts": "2"})
	// Pods come in again when the plugins turn out to be there.
	if n := sample(t, m, "scheduler_queue_incoming_pods_total", map[string]string{"queue": "active", "event": "UnschedulablePodAdd"}); n < 2 {
		t.Errorf("%v pods came", n)
	}
	if n := sample(t, m, "scheduler_preemption_attempts_total", nil); n < 2 {
		t.Errorf("%v attempts to preempt", n)
	}
	c.stop()
	is("scheduler_pending_pods", 0, map[string]string{"queue": "unschedulable"})
}

// A condition that the API did not take is written again, though the pod itself is
// not tried again for long.
func TestLostConditionIsWrittenAgain(t *testing.T) {
	var tries atomic.Int64
	c := start(t, Config{}, func(c *cluster) {
		c.nodes.Add(schedulertest.MakeNode("n", 1000, nil))
		c.addPod(schedulertest.MakePod("big", 9000))
		c.refuseCondition = func() error {
			if tries.Add(1) == 1 {
				return errors.New("etcdserver: request timed out")
			}
			return nil
		}
	})
	eventually(t, "it is written again", func() bool {
		c.clock.Step(time.Second)
		_, n := c.lastCondition("big")
		return n == 1
	})
	if d, _ := c.sched.Explain("a", "big"); d.Attempt != 1 {
		t.Errorf("attempt %d", d.Attempt)
	}
}
