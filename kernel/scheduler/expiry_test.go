package scheduler

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// opens refuses nodes before the time of their label "opens" (Unix seconds), and from
// that of "closes" on.
var opens = sdk.Predicate{Name: "Opens", Expires: true, Filter: func(r *sdk.Request) sdk.Verdict {
	at := func(label string) time.Time {
		if n, err := strconv.ParseInt(r.Node.Labels[label], 10, 64); err == nil {
			return time.Unix(n, 0)
		}
		return time.Time{}
	}
	if from := at("opens"); r.Now().Before(from) {
		r.Until(from)
		return sdk.Unfit("node(s) were not open yet")
	}
	if end := at("closes"); !end.IsZero() && !r.Now().Before(end) {
		return sdk.Unfit("node(s) were closed")
	} else if !end.IsZero() {
		r.Until(end)
	}
	return sdk.Fits()
}}

// later scores what is open longer.
var later = sdk.Priority{Name: "Later", Expires: true, Normalize: sdk.NormalizeMax, Score: func(r *sdk.Request) int64 {
	n, err := strconv.ParseInt(r.Node.Labels["closes"], 10, 64)
	if err != nil {
		return 0
	}
	r.Until(r.Now().Truncate(time.Minute).Add(time.Minute))
	return max(0, n-r.Now().Unix())
}}

// TestAnswersEndWithTime: a pod waits for the time that a predicate named, and is bound
// then and not before; an answer that ended is asked for again, also where the pod fits.
func TestAnswersEndWithTime(t *testing.T) {
	c := start(t, Config{}, func(c *cluster) {
		c.policy = schedulertest.NewGuestPolicy(t, c.policy.Replica, []sdk.Predicate{schedulertest.FitCPU, opens}, []sdk.Priority{schedulertest.LeastCPU, later})
		c.policy.Guest.SetClock(c.clock.Now)
		c.source = newTestSource(c.policy)
	})
	t0 := c.clock.Now().Unix()
	label := func(name string, seconds int64) map[string]string {
		return map[string]string{name: fmt.Sprint(t0 + seconds)}
	}
	c.addNodes(t, schedulertest.MakeNode("soon", 4000, label("opens", 100)))
	c.addNodes(t, schedulertest.MakeNode("short", 4000, label("closes", 50)))
	c.addPod(schedulertest.MakePod("first", 10))
	c.eventuallyBound(t, "first", "short")
	// The class has it that the node is open; it is not any more.
	for c.clock.Now().Unix() < t0+51 {
		c.clock.Step(time.Second)
	}
	c.addPod(schedulertest.MakePod("second", 10))
	d := c.eventuallyTried(t, "second", 1)
	if want := "0/2 nodes are available: 1 node(s) were closed, 1 node(s) were not open yet."; d.Message != want {
		t.Errorf("message %q, want %q", d.Message, want)
	}
	x, err := c.sched.Why(t.Context(), "a", "second", explain.Options{Now: true})
	if err != nil || x.Feasible != 0 {
		t.Errorf("explain says %+v, %v", x, err)
	}
	for c.clock.Now().Unix() < t0+99 {
		c.clock.Step(time.Second)
	}
	if d := c.eventuallyTried(t, "second", 1); d.Attempt != 1 || c.node("second") != "" {
		t.Errorf("it was tried again before the time: %+v, on %q", d, c.node("second"))
	}
	c.clock.Step(time.Second) // and no more
	eventually(t, "second is bound", func() bool { return c.node("second") == "soon" })
}

// A pod is woken at its own time.
func TestPodIsWokenAtItsTime(t *testing.T) {
	q := testQueue()
	var pods []*podEntry
	for i, due := range []time.Time{t0.Add(time.Minute), {}, t0.Add(2 * time.Minute)} {
		p := newEntry(fmt.Sprint("p", i))
		q.park(p, byOther, t0)
		q.awaits(p, due)
		pods = append(pods, p)
	}
	q.wakeDue(t0.Add(time.Minute - 1))
	if pods[0].place != unschedulable {
		t.Error("woken too soon")
	}
	q.wakeDue(t0.Add(time.Minute))
	if pods[0].place != active || pods[1].place != unschedulable || pods[2].place != unschedulable || !q.due.Equal(t0.Add(2*time.Minute)) {
		t.Errorf("places %d, %d, %d; next %s", pods[0].place, pods[1].place, pods[2].place, q.due)
	}
}
