package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// shut is a predicate that looks at nodes alone.
var shut = sdk.Predicate{Name: "Shut", Scope: sdk.ScopeNodeObject, Filter: func(r *sdk.Request) sdk.Verdict {
	if r.Node.Labels["shut"] == "yes" {
		return sdk.Unfit("shut")
	}
	return sdk.Fits()
}}

// ask runs a function on the cycle's goroutine.
func (c *cluster) ask(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	select {
	case c.sched.inspections <- func(context.Context) { f(); close(done) }:
		<-done
	case <-t.Context().Done():
		t.Fatal("the scheduler does not answer")
	}
}

// tale is what became of preemptors, one after the other, on a cluster that is
// drawn: where each went and who had to go.
func tale(t *testing.T, seed uint64, plugin sdk.PostFilter, before func(s *Scheduler)) []string {
	const nodes, preemptors = 6, 12
	random := rand.New(rand.NewPCG(seed, 1))
	var j journal
	started := func(p *v1.Pod) {
		if random.IntN(3) > 0 {
			at := metav1.Unix(int64(1_600_000_000+random.IntN(100)), 0)
			p.Status.StartTime = &at
		}
	}
	label := func(name string, shut bool) map[string]string {
		return map[string]string{"name": name, "zone": fmt.Sprint(name[1] / 2), "shut": map[bool]string{true: "yes"}[shut]}
	}
	var low []*v1.Pod
	draw := func(i int) *v1.Pod {
		n := fmt.Sprint("n", random.IntN(nodes))
		p := schedulertest.MakePod(fmt.Sprint("low", i), int64(500+500*random.IntN(3)), priority(int32(random.IntN(3))), on(n), started)
		if random.IntN(4) == 0 {
			p.Labels = map[string]string{"guarded": "yes"}
		}
		if random.IntN(3) == 0 {
			p.Labels = map[string]string{"colour": "red"}
		}
		return p
	}
	c, _ := startCycle(t, 0, []any{shut, apart, plugin}, evicting(&j), func(c *cluster) {
		for i := range 5 * nodes {
			p := draw(i)
			low = append(low, p)
			c.addPod(p)
		}
	})
	for i := range nodes { // one after the other, or they have other indexes each time
		n := fmt.Sprint("n", i)
		c.addNodes(t, schedulertest.MakeNode(n, 4000, label(n, i == 0)))
	}
	var lines []string
	for i := range preemptors {
		name := fmt.Sprint("high", i)
		pod := schedulertest.MakePod(name, int64(1000+1000*random.IntN(3)), priority(int32(5+random.IntN(2))))
		if random.IntN(3) == 0 {
			pod.Labels = map[string]string{"colour": "red"}
		}
		c.ask(t, func() {
			// Between equal nodes it draws as for any other of the same number.
			c.sched.source.Seed(seed, uint64(i))
			if before != nil {
				before(c.sched)
			}
		})
		told := len(strings.Fields(j.all()))
		c.addPod(pod)
		d := c.eventuallyTried(t, name, 1)
		node := ""
		if n := len(d.Outcomes); d.Node != "" || n > 0 && d.Outcomes[n-1].Code == contractv1.CodeNames[0] {
			c.eventuallyBound(t, name, "")
			node = c.node(name)
		} else {
			c.deletePod(name) // or it is tried again beside the next one
		}
		var gone []string
		words := strings.Fields(j.all())[told:]
		for k, word := range words {
			if word == "evict" {
				gone = append(gone, words[k+1])
			}
		}
		slices.Sort(gone)
		lines = append(lines, fmt.Sprintf("%s on %q without %v", name, node, gone))
		switch random.IntN(4) {
		case 0: // somebody comes
			c.addPod(draw(1000 + i))
		case 1: // somebody starts, behind all others that did or before them
			p := low[random.IntN(len(low))]
			at := metav1.Unix(int64(1_500_000_000+random.IntN(200_000_000)), 0)
			if !strings.Contains(j.all()+" ", "evict "+p.Name+" ") {
				c.changePod(p.Name, func(p *v1.Pod) { p.Status.StartTime = &at })
			}
		case 2: // a node is opened, another is shut
			n := fmt.Sprint("n", random.IntN(nodes))
			labels := label(n, random.IntN(2) == 0)
			c.nodes.Modify(schedulertest.MakeNode(n, 4000, labels))
			eventually(t, n+" is seen", func() (seen bool) {
				c.ask(t, func() { seen = c.sched.snapshot.ByName[n].Object.Labels["shut"] == labels["shut"] })
				return seen
			})
		}
	}
	return lines
}

// What is kept between equal pods, ranks and samples leave each pod where it goes and
// each victim who it is.
func TestWaysOfTryingAgree(t *testing.T) {
	forgetful := func(s *Scheduler) {
		for _, c := range s.cached {
			c.trials = nil
			c.class.Forget()
		}
	}
	gone := 0
	for seed := range uint64(12) {
		var asked atomic.Int64
		want := tale(t, seed, trier(&asked), forgetful)
		for _, way := range []struct {
			name   string
			plugin sdk.PostFilter
			before func(*Scheduler)
		}{{"listed", trier(&asked), nil}, {"sampled", sampler(&asked), nil}, {"sampled, anew", sampler(&asked), forgetful}} {
			if got := tale(t, seed, way.plugin, way.before); !slices.Equal(got, want) {
				t.Errorf("seed %d, %s:\n%s\nwant\n%s", seed, way.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		gone += strings.Count(strings.Join(want, " "), "low")
	}
	if gone < 20 {
		t.Errorf("only %d pods had to go", gone)
	}
}
