package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const slowProfile = "slow"

// latePolicy asks as the plugin host does when a plugin has no answer: it offers to
// yield, waits for the answer, and resumes.
type latePolicy struct {
	*schedulertest.GuestPolicy
	questions chan *lateQuestion // those that are late; nil: none is
	late      atomic.Int64       // so many questions are late
}

type lateQuestion struct {
	answer   chan error
	yielding bool
}

func (p *latePolicy) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.late.Load() <= 0 {
		return nil
	}
	p.late.Add(-1)
	y := contractv1.YielderOf(ctx)
	q := &lateQuestion{answer: make(chan error), yielding: y.Yield()}
	p.questions <- q
	err := <-q.answer
	if q.yielding {
		y.Resume(err == nil)
	}
	return err
}

func (p *latePolicy) Filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	return p.GuestPolicy.Filter(ctx, i, class, nodes, out)
}

func (p *latePolicy) Score(ctx context.Context, i int, class uint32, nodes []uint32, out []int64) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	return p.GuestPolicy.Score(ctx, i, class, nodes, out)
}

func (p *latePolicy) MovedVerdicts(ctx context.Context, i int, class uint32, since uint64) (uint64, []uint32, bool) {
	if p.wait(ctx) != nil {
		return 0, nil, false
	}
	return p.GuestPolicy.MovedVerdicts(ctx, i, class, since)
}

func (p *latePolicy) Evaluate(ctx context.Context, e *contractv1.Evaluation) {
	if p.wait(ctx) == nil {
		p.GuestPolicy.Evaluate(ctx, e)
	}
}

// lateSource hands out any policy.
type lateSource struct {
	policy  atomic.Pointer[Policy]
	changed chan struct{}
}

func newLateSource(p Policy) *lateSource {
	s := &lateSource{changed: make(chan struct{}, 1)}
	s.policy.Store(&p)
	return s
}

func (s *lateSource) Policy() Policy           { return *s.policy.Load() }
func (s *lateSource) Changed() <-chan struct{} { return s.changed }
func (s *lateSource) set(p Policy) {
	s.policy.Store(&p)
	s.changed <- struct{}{}
}

// startLate runs a scheduler with a second profile, whose plugins may be late.
func startLate(t *testing.T, cfg Config, prepare ...func(*cluster, *latePolicy)) (*cluster, *latePolicy) {
	t.Helper()
	late := &latePolicy{questions: make(chan *lateQuestion)}
	c := start(t, cfg, func(c *cluster) {
		late.GuestPolicy = schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() },
			[]sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{schedulertest.LeastCPU, schedulertest.Spread})
		c.profiles = map[string]PolicySource{slowProfile: newLateSource(late)}
		for _, f := range prepare {
			f(c, late)
		}
	})
	return c, late
}

func ofProfile(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.SchedulerName = name } }

// TestLatePluginHoldsUpItsProfileAlone: while a plugin does not answer, pods of another
// profile are decided about, the first time too, and those of its own wait.
func TestLatePluginHoldsUpItsProfileAlone(t *testing.T) {
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprint(answers), func(t *testing.T) {
			c, late := startLate(t, Config{})
			for i := range 4 {
				c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 4000, nil))
			}
			c.addPod(schedulertest.MakePod("before", 10))
			c.eventuallyBound(t, "before", "")
			late.late.Store(1)
			c.addPod(schedulertest.MakePod("slow", 10, ofProfile(slowProfile)))
			q := <-late.questions
			if !q.yielding {
				t.Fatal("the cycle could not be left")
			}
			c.addPod(schedulertest.MakePod("slow2", 10, ofProfile(slowProfile), priority(1000)))
			for i := range 40 {
				c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 10))
			}
			c.nodes.Add(schedulertest.MakeNode("n9", 4000, nil))
			c.addPod(schedulertest.MakePod("there", 10, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "z"} }))
			c.nodes.Modify(schedulertest.MakeNode("n9", 4000, map[string]string{"zone": "z"}))
			for i := range 40 {
				c.eventuallyBound(t, fmt.Sprint("p", i), "")
			}
			c.eventuallyBound(t, "there", "n9")
			if c.node("slow") != "" || c.node("slow2") != "" {
				t.Error("a pod of the profile was placed without an answer")
			}
			if answers {
				q.answer <- nil
			} else {
				q.answer <- schedulertest.ErrBroken
			}
			c.eventuallyBound(t, "slow", "")
			c.eventuallyBound(t, "slow2", "")
			if _, err := c.sched.Why(t.Context(), "a", "slow", explain.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestChangesWhileAPluginIsLate: what happens meanwhile to the pod, to nodes and to the
// policy counts.
func TestChangesWhileAPluginIsLate(t *testing.T) {
	c, late := startLate(t, Config{})
	c.addNodes(t, schedulertest.MakeNode("n0", 4000, nil))
	c.addNodes(t, schedulertest.MakeNode("n1", 4000, nil))
	late.late.Store(1)
	c.addPod(schedulertest.MakePod("gone", 10, ofProfile(slowProfile)))
	q := <-late.questions
	c.deletePod("gone")
	c.nodes.Delete(schedulertest.MakeNode("n0", 4000, nil))
	for i := range 5 {
		c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("m", i), 1000, map[string]string{"zone": "new"}))
	}
	// Nodes and pods arrive by different ways: a pod on a node that came later shows
	// that the deletion is known.
	c.addPod(schedulertest.MakePod("later", 10, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "new"} }))
	c.eventuallyBound(t, "later", "")
	c.addPod(schedulertest.MakePod("other", 10))
	c.eventuallyBound(t, "other", "")
	q.answer <- nil
	c.addPod(schedulertest.MakePod("stays", 10, ofProfile(slowProfile)))
	c.eventuallyBound(t, "stays", "")
	if c.node("other") == "n0" || c.node("stays") == "n0" {
		t.Error("a pod was placed on a node that is gone")
	}

	// Another policy takes the place of one that does not answer.
	late.late.Store(1)
	c.addPod(schedulertest.MakePod("turned", 20, ofProfile(slowProfile)))
	q = <-late.questions
	next := schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, []sdk.Predicate{schedulertest.FitCPU}, nil)
	c.profiles[slowProfile].(*lateSource).set(next)
	c.addPod(schedulertest.MakePod("another", 10))
	c.eventuallyBound(t, "another", "")
	q.answer <- schedulertest.ErrBroken
	c.eventuallyBound(t, "turned", "")

	// The end comes while one does not answer.
	late.late.Store(1)
	c.profiles[slowProfile].(*lateSource).set(late)
	c.addPod(schedulertest.MakePod("last", 30, ofProfile(slowProfile)))
	q = <-late.questions
	stopped := make(chan struct{})
	go func() { c.stop(); close(stopped) }()
	q.answer <- nil
	<-stopped
}

// TestSlowPluginGetsItsTime: a plugin that answers late each time decides in the end,
// and others come between.
func TestSlowPluginGetsItsTime(t *testing.T) {
	c, late := startLate(t, Config{})
	c.addNodes(t, schedulertest.MakeNode("n0", 4000, nil))
	late.late.Store(1 << 30)
	c.addPod(schedulertest.MakePod("slow", 10, ofProfile(slowProfile)))
	q := <-late.questions
	if !q.yielding {
		t.Fatal("the first question could not be left")
	}
	c.clock.Step(time.Second)
	q.answer <- nil
	q = <-late.questions
	if q.yielding {
		t.Fatal("a plugin that answers is never waited for")
	}
	late.late.Store(0)
	q.answer <- nil
	c.eventuallyBound(t, "slow", "n0")
}

// TestLateAtRandom: whichever questions are late, and however they end, each pod is
// bound once, and none where it does not fit.
func TestLateAtRandom(t *testing.T) {
	c, late := startLate(t, Config{Seed: 1})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		c.addNodes(t, schedulertest.MakeNode(fmt.Sprint("n", i), 1000, map[string]string{"zone": fmt.Sprint(i % 3)}))
	}
	var answering sync.WaitGroup
	done := make(chan struct{})
	answering.Go(func() {
		for n := 0; ; n++ {
			select {
			case q := <-late.questions:
				if n%3 == 0 {
					q.answer <- schedulertest.ErrBroken
				} else {
					q.answer <- nil
				}
			case <-done:
				return
			}
		}
	})
	var names []string
	for i := range 300 {
		name := fmt.Sprint("p", i)
		names = append(names, name)
		profile := schedulertest.ProfileName
		if i%2 == 0 {
			profile = slowProfile
		}
		c.addPod(schedulertest.MakePod(name, 50, ofProfile(profile), priority(int32(random.IntN(3)))))
		if random.IntN(4) == 0 {
			late.late.Store(int64(random.IntN(3)))
		}
		if random.IntN(20) == 0 {
			c.nodes.Modify(schedulertest.MakeNode(fmt.Sprint("n", random.IntN(20)), 1000, map[string]string{"zone": fmt.Sprint(i)}))
		}
	}
	for _, name := range names {
		eventually(t, name, func() bool {
			c.clock.Step(100 * time.Millisecond)
			return c.node(name) != ""
		})
	}
	late.late.Store(0)
	close(done)
	answering.Wait()
	perNode := map[string]int{}
	for _, name := range names {
		if perNode[c.node(name)]++; perNode[c.node(name)] > 20 {
			t.Errorf("node %s is overfull", c.node(name))
		}
	}
}
