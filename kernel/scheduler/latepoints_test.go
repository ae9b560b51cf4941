package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// lateCycle is a cyclePolicy of which one question at a point is late: it asks as the
// plugin host does then.
type lateCycle struct {
	*cyclePolicy
	questions chan *lateQuestion
	// next is the point at which the next question is late; 0: none is.
	next atomic.Int32
	// armed is the point behind which the next question to a predicate is late.
	armed atomic.Int32
	skip  atomic.Int32 // so many questions to predicates are not late
}

const (
	lateFilter   = contractv1.Point(100) // beside the points that there are
	latePrepared = contractv1.Point(101)
	neverLate    = contractv1.Point(-1)
)

// wait is one question at a point; an error is the plugin's.
func (p *lateCycle) wait(ctx context.Context, at contractv1.Point) error {
	if !p.next.CompareAndSwap(int32(at), int32(neverLate)) {
		return nil
	}
	y := contractv1.YielderOf(ctx)
	q := &lateQuestion{answer: make(chan error), yielding: y.Yield()}
	p.questions <- q
	err := <-q.answer
	if q.yielding {
		y.Resume(err == nil)
	}
	return err
}

func (p *lateCycle) Cycle(ctx context.Context, c *contractv1.CycleCall) {
	c.Results = nil
	for len(c.Results) < len(c.Steps) && ctx.Err() == nil {
		one := with(c, c.Steps[len(c.Results):][:1])
		at := one.Steps[0].Point
		if at.Beside() {
			p.cyclePolicy.Cycle(ctx, one)
		} else if err := p.wait(ctx, at); err != nil {
			one.Results = []*contractv1.StepResult{{Code: contractv1.Code_ERROR, Reasons: []string{err.Error()}}}
		} else {
			p.cyclePolicy.Cycle(ctx, one)
		}
		if p.armed.CompareAndSwap(int32(at), int32(neverLate)) {
			p.next.Store(int32(lateFilter))
		}
		c.Results = append(c.Results, one.Results...)
		if len(one.Results) == 0 || at.Stops(one.Results[0].GetCode()) {
			return
		}
	}
}

func (p *lateCycle) Filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.next.Load() == int32(lateFilter) && p.skip.Add(-1) >= 0 {
		return p.cyclePolicy.Filter(ctx, i, class, nodes, out)
	}
	if err := p.wait(ctx, lateFilter); err != nil {
		return err
	}
	return p.cyclePolicy.Filter(ctx, i, class, nodes, out)
}

func (p *lateCycle) Prepared(ctx context.Context) bool {
	return p.wait(ctx, latePrepared) == nil && p.cyclePolicy.Prepared(ctx)
}

// startLatePoints runs a scheduler with a second profile that has the plugins, over
// nodes n0, n1 … of which each has room for four pods of 1000.
func startLatePoints(t *testing.T, nodes int, plugins []any, prepare ...func(*cluster)) (*cluster, *lateCycle) {
	t.Helper()
	late := &lateCycle{questions: make(chan *lateQuestion)}
	late.next.Store(int32(neverLate))
	late.armed.Store(int32(neverLate))
	c := start(t, Config{Seed: 1, BindWorkers: 2}, append([]func(*cluster){func(c *cluster) {
		late.cyclePolicy = newCyclePolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, plugins...)
		c.profiles = map[string]PolicySource{slowProfile: newLateSource(late)}
		for i := range nodes {
			c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("n", i), 4000, map[string]string{"name": fmt.Sprint("n", i)}))
		}
	}}, prepare...)...)
	return c, late
}

var inSlow = ofProfile(slowProfile)

// goOn has pods of the other profile bound, of two shapes, one of them new.
func (c *cluster) goOn(t *testing.T) {
	t.Helper()
	for i := range 8 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("sound", i), 1, label("shape", fmt.Sprint(i%2))))
	}
	for i := range 8 {
		c.eventuallyBound(t, fmt.Sprint("sound", i), "")
	}
}

// TestLateAtAPoint: at whichever point a plugin has no answer, pods of another profile
// are decided about meanwhile, and those of its own end as they would have.
func TestLateAtAPoint(t *testing.T) {
	var j journal
	pass := func(*sdk.Placement) sdk.Status { return sdk.Status{} }
	var preempting, hinted atomic.Int64
	hints := sdk.Predicate{
		Name: "Hints", Events: []sdk.Interest{{Kind: sdk.KindNode, Actions: sdk.ActionUpdateNodeLabel, Helps: func(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
			hinted.Add(1)
			return true
		}}},
		Filter: func(r *sdk.Request) sdk.Verdict {
			if want := r.Pod.Labels["wants"]; want != "" && r.Node.Labels["room"] != want {
				return sdk.Unfit("no room")
			}
			return sdk.Fits()
		},
	}
	full := func(c *cluster) { // each node is, but for what others need
		c.addPod(schedulertest.MakePod("small", 3900, priority(1), on("n0")))
	}
	for _, tc := range []struct {
		name    string
		at      contractv1.Point
		plugins []any
		before  func(*testing.T, *cluster)
		// trigger has the question asked; nil: a pod comes.
		trigger func(*testing.T, *cluster)
		pod     []func(*v1.Pod)
		cpu     int64
	}{
		{name: "pre-enqueue", at: contractv1.Point_PRE_ENQUEUE, plugins: []any{sdk.PreEnqueue{Name: "Ready", Admit: func(*sdk.Cluster, *sdk.QueuedPod) sdk.Status { return sdk.Status{} }}}},
		{name: "pre-enqueue by class", at: contractv1.Point_PRE_ENQUEUE, plugins: []any{gates}},
		{name: "pre-filter", at: contractv1.Point_PRE_FILTER, plugins: []any{sdk.PreFilter{Name: "Narrow", Narrow: func(*sdk.Cluster, *sdk.Pod) ([]*sdk.Node, sdk.Status) { return nil, sdk.Skipped() }}}},
		{name: "pre-score", at: contractv1.Point_PRE_SCORE, plugins: []any{sdk.PreScore{Name: "Look", Look: func(*sdk.Cluster, *sdk.Pod, []*sdk.Node) sdk.Status { return sdk.Status{} }}}},
		{name: "reserve", at: contractv1.Point_RESERVE, plugins: []any{reserve(&j, "A"), gang(&j)}},
		{name: "second of reserve", at: contractv1.Point_PERMIT, plugins: []any{reserve(&j, "A"), sdk.Permit{Name: "Permit", Permit: func(*sdk.PermitRequest) sdk.Status { return sdk.Status{} }}, sdk.Reserve{Name: "B", Reserve: pass}}},
		{name: "post-filter", at: contractv1.Point_POST_FILTER, plugins: []any{trier(&preempting)}, before: func(_ *testing.T, c *cluster) { full(c) }, cpu: 3000, pod: []func(*v1.Pod){priority(9)}},
		{name: "victims", at: contractv1.Point_VICTIMS, plugins: []any{trier(&preempting)}, before: func(_ *testing.T, c *cluster) { full(c) }, cpu: 3000, pod: []func(*v1.Pod){priority(9)}},
		{name: "choose", at: contractv1.Point_CHOOSE, plugins: []any{trier(&preempting)}, before: func(_ *testing.T, c *cluster) { full(c) }, cpu: 3000, pod: []func(*v1.Pod){priority(9)}},
		{name: "rank", at: contractv1.Point_RANK, plugins: []any{sampler(&preempting)}, before: func(_ *testing.T, c *cluster) { full(c) }, cpu: 3000, pod: []func(*v1.Pod){priority(9)}},
		{name: "queueing hint", at: contractv1.Point_QUEUEING_HINT, plugins: []any{hints}, pod: []func(*v1.Pod){label("wants", "red")}, trigger: func(t *testing.T, c *cluster) {
			c.eventuallyTried(t, "slow", 1)
			c.nodes.Modify(schedulertest.MakeNode("n0", 4000, map[string]string{"name": "n0", "room": "red"}))
		}},
		{name: "permit review", at: contractv1.Point_PERMIT_REVIEW, plugins: []any{reserve(&j, "A"), sdk.Permit{
			Name: "Later", Permit: func(*sdk.PermitRequest) sdk.Status { return sdk.WaitFor(time.Hour) },
			Review: func(r *sdk.ReviewRequest) {
				for _, w := range r.Waiting {
					r.Allow(w.Pod.UID)
				}
			},
		}}, trigger: func(t *testing.T, c *cluster) {
			eventually(t, "it waits", func() bool { return c.outcomes("slow") == "permit Later Wait" })
			c.clock.Step(time.Second)
		}},
	} {
		for _, answers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/answers=%v", tc.name, answers), func(t *testing.T) {
				c, late := startLatePoints(t, 1, tc.plugins, evicting(&journal{}))
				if tc.before != nil {
					tc.before(t, c)
					c.addPod(schedulertest.MakePod("behind", 1)) // what came before it is seen then
					c.eventuallyBound(t, "behind", "")
				}
				late.next.Store(int32(tc.at))
				c.addPod(schedulertest.MakePod("slow", max(tc.cpu, 10), append(tc.pod, inSlow)...))
				if tc.trigger != nil {
					tc.trigger(t, c)
				}
				q := <-late.questions
				if !q.yielding {
					q.answer <- nil
					t.Fatal("the cycle could not be left")
				}
				c.goOn(t)
				if c.node("slow") != "" {
					t.Error("the pod is bound without the answer")
				}
				q.answer <- map[bool]error{false: schedulertest.ErrBroken}[answers]
				eventually(t, "it is bound in the end", func() bool {
					c.clock.Step(200 * time.Millisecond)
					return c.node("slow") != ""
				})
			})
		}
	}
}

// TestLateWhileSupposing: while a predicate is late about a node without its pods, others
// see the node with them.
func TestLateWhileSupposing(t *testing.T) {
	var asked atomic.Int64
	atFirst := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "n0"} }
	for _, what := range []string{"dry run", "room of a nominated pod"} {
		t.Run(what, func(t *testing.T) {
			c, late := startLatePoints(t, 2, []any{trier(&asked)}, evicting(&journal{}), func(c *cluster) {
				if what != "dry run" {
					c.evict = func(context.Context, *v1.Pod, *v1.PodCondition) error { return nil } // it stays for a while
				}
			})
			c.addPod(schedulertest.MakePod("victim", 3500, priority(1), on("n0")))
			c.addPod(schedulertest.MakePod("first", 1, inSlow, atFirst))
			c.eventuallyBound(t, "first", "n0")
			if what == "dry run" {
				late.armed.Store(int32(contractv1.Point_VICTIMS))
				c.addPod(schedulertest.MakePod("slow", 3600, priority(9), inSlow, atFirst))
			} else {
				c.addPod(schedulertest.MakePod("nominee", 3600, priority(9), inSlow, atFirst))
				eventually(t, "it is nominated", func() bool { d, _ := c.sched.Explain("a", "nominee"); return d.Attempt > 0 })
				late.skip.Store(2) // those without the pod that is nominated
				late.next.Store(int32(lateFilter))
				c.addPod(schedulertest.MakePod("slow", 2, inSlow, atFirst))
			}
			q := <-late.questions
			if !q.yielding {
				q.answer <- nil
				t.Fatal("the cycle could not be left")
			}
			c.addPod(schedulertest.MakePod("greedy", 600, atFirst, priority(20)))
			if d := c.eventuallyTried(t, "greedy", 1); d.Node != "" {
				t.Error("a pod has the place of one that is there")
			}
			c.goOn(t)
			q.answer <- nil
			if what != "dry run" {
				c.deletePod("nominee")
			}
			c.deletePod("greedy")
			eventually(t, "it is bound in the end", func() bool {
				c.clock.Step(200 * time.Millisecond)
				return c.node("slow") != ""
			})
		})
	}
}

// TestLateQueueSort: a queue-sort plugin that does not answer keeps nobody out of the
// queue, and its answer counts for those that wait then.
func TestLateQueueSort(t *testing.T) {
	for _, byClass := range []bool{false, true} {
		t.Run(fmt.Sprint("by class=", byClass), func(t *testing.T) {
			key := sdk.QueueSort{Name: "ByRank", ByClass: byClass, Key: func(p *sdk.QueuedPod) sdk.SortKey {
				return sdk.SortKey{Number: int64(len(p.Labels["rank"]))}
			}}
			ready := sdk.PreEnqueue{Name: "Ready", Admit: func(*sdk.Cluster, *sdk.QueuedPod) sdk.Status { return sdk.Status{} }}
			c, late := startLatePoints(t, 1, []any{key, ready})
			late.next.Store(int32(contractv1.Point_QUEUE_SORT))
			c.addPod(schedulertest.MakePod("a", 1, inSlow, label("rank", "xx")))
			q := <-late.questions
			if !q.yielding {
				t.Fatal("the cycle could not be left")
			}
			c.eventuallyBound(t, "a", "")
			c.goOn(t)
			c.addPod(schedulertest.MakePod("b", 1, inSlow, label("rank", "x")))
			c.eventuallyBound(t, "b", "")
			q.answer <- nil
			c.addPod(schedulertest.MakePod("c", 1, inSlow))
			c.eventuallyBound(t, "c", "")

			// So does one that fails.
			late.next.Store(int32(contractv1.Point_QUEUE_SORT))
			c.addPod(schedulertest.MakePod("d", 1, inSlow, label("rank", "xxx")))
			q = <-late.questions
			c.eventuallyBound(t, "d", "")
			q.answer <- schedulertest.ErrBroken
			c.addPod(schedulertest.MakePod("e", 1, inSlow))
			c.eventuallyBound(t, "e", "")
		})
	}
}

// TestLateSortKeyReorders: a pod that waits in the queue has the place that a late
// answer gives it.
func TestLateSortKeyReorders(t *testing.T) {
	q := newQueue(&Config{})
	q.sorted = true
	s := &Scheduler{queue: q}
	var pods []*podEntry
	for i := range 5 {
		p := &podEntry{Pod: snapshot.Pod{Name: fmt.Sprint(i)}, shape: &shape{}}
		q.admit(p, time.Unix(1, 0))
		pods = append(pods, p)
	}
	moved := pods[3].shape
	pods[3].shape = &shape{} // it changed since
	gone := q.pop(time.Unix(1, 0))
	s.rekey(pods, func(i int, p *podEntry) (sortKey, bool) {
		return sortKey{number: int64(-i)}, p.shape != moved && i != 3
	})
	var order []string
	for p := q.pop(time.Unix(1, 0)); p != nil; p = q.pop(time.Unix(1, 0)) {
		order = append(order, p.Name)
	}
	want := []string{"4", "2", "1", "3"}
	if gone.Name != "0" || !slices.Equal(order, want) || gone.keyed || pods[3].keyed || !pods[4].keyed {
		t.Errorf("%s was taken, then %v, want %v", gone.Name, order, want)
	}
}

// TestLateUnreserve: reserve plugins that take their time over taking back hold up
// their profile alone, and each is asked once.
func TestLateUnreserve(t *testing.T) {
	var j journal
	var refuse atomic.Bool
	refuse.Store(true)
	permit := sdk.Permit{Name: "Permit", Permit: func(*sdk.PermitRequest) sdk.Status {
		if refuse.Load() {
			return sdk.Refuse("not now")
		}
		return sdk.Status{}
	}}
	c, late := startLatePoints(t, 1, []any{reserve(&j, "A"), reserve(&j, "B"), permit})
	late.next.Store(int32(contractv1.Point_UNRESERVE))
	c.addPod(schedulertest.MakePod("slow", 10, inSlow))
	q := <-late.questions
	if !q.yielding {
		t.Fatal("the cycle could not be left")
	}
	c.goOn(t)
	refuse.Store(false)
	q.answer <- nil
	eventually(t, "it is bound in the end", func() bool {
		c.clock.Step(200 * time.Millisecond)
		c.changePod("slow", func(p *v1.Pod) { p.Labels = map[string]string{"try": "again"} })
		return c.node("slow") != ""
	})
	if got := j.all(); got != "+A +B -B -A +A +B" {
		t.Errorf("asked %s", got)
	}
}

// TestChangesWhileAPlacementIsLate: what becomes of a pod while reserve and permit plugins
// are late counts, and what they gave is taken back.
func TestChangesWhileAPlacementIsLate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *cluster, late *lateCycle)
		seen   func(c *cluster) bool
		asked  string
	}{
		{"deleted", func(c *cluster, _ *lateCycle) { c.deletePod("slow") }, func(c *cluster) bool { return true }, "+A -A"},
		{"ending", func(c *cluster, _ *lateCycle) {
			c.changePod("slow", func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
		}, func(c *cluster) bool { return true }, "+A -A"},
		{"bound by somebody else", func(c *cluster, _ *lateCycle) {
			c.changePod("slow", func(p *v1.Pod) { p.Spec.NodeName = "n1" })
		}, func(c *cluster) bool { return true }, "+A -A"},
		{"without the plugins", func(c *cluster, late *lateCycle) {
			c.profiles[slowProfile].(*lateSource).set(schedulertest.NewGuestPolicy(c.t, func() *contractv1.Delta { return c.sched.Replica() }, []sdk.Predicate{schedulertest.FitCPU}, nil))
		}, nil, "+A"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j journal
			wait := sdk.Permit{Name: "Wait", Permit: func(*sdk.PermitRequest) sdk.Status { return sdk.WaitFor(time.Hour) }}
			c, late := startLatePoints(t, 2, []any{reserve(&j, "A"), wait})
			late.next.Store(int32(contractv1.Point_PERMIT))
			c.addPod(schedulertest.MakePod("slow", 4000, inSlow, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "n0"} }))
			q := <-late.questions
			tc.change(c, late)
			c.goOn(t)
			if tc.seen != nil && tc.name != "bound by somebody else" {
				c.addPod(schedulertest.MakePod("heir", 3900, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "n0"} }))
				eventually(t, "its room is another's", func() bool {
					c.clock.Step(time.Second)
					return c.node("heir") == "n0"
				})
			}
			q.answer <- nil
			if tc.seen == nil {
				c.eventuallyBound(t, "slow", "n0")
			}
			eventually(t, "reserve plugins are asked "+tc.asked+", not "+j.all(), func() bool { return j.all() == tc.asked })
			c.addPod(schedulertest.MakePod("next", 1, inSlow, func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "n1"} }))
			c.eventuallyTried(t, "next", 1)
		})
	}
}

// TestLateConfiguration: while a plugin takes a new configuration, and while the first
// plugins of a profile are fed, other profiles go on.
func TestLateConfiguration(t *testing.T) {
	c, late := startLatePoints(t, 1, nil)
	c.addPod(schedulertest.MakePod("before", 10, inSlow))
	c.eventuallyBound(t, "before", "")
	next := &lateCycle{questions: late.questions, cyclePolicy: newCyclePolicy(t, func() *contractv1.Delta { return c.sched.Replica() })}
	next.next.Store(int32(latePrepared))
	c.profiles[slowProfile].(*lateSource).set(next)
	q := <-late.questions
	if !q.yielding {
		t.Fatal("the cycle could not be left")
	}
	c.addPod(schedulertest.MakePod("slow", 10, inSlow))
	c.goOn(t)
	if c.node("slow") != "" {
		t.Error("a pod was placed by a policy that is being changed")
	}
	q.answer <- nil
	c.eventuallyBound(t, "slow", "")

	third := newCyclePolicy(t, func() *contractv1.Delta { return c.sched.Replica() })
	third.Unprepared.Store(true)
	source := newLateSource(&lateCycle{cyclePolicy: third})
	all := map[string]PolicySource{schedulertest.ProfileName: c.source, slowProfile: c.profiles[slowProfile], "third": source}
	if err := c.sched.SetProfiles(all); err != nil {
		t.Fatal(err)
	}
	c.addPod(schedulertest.MakePod("waits", 10, ofProfile("third")))
	c.addPod(schedulertest.MakePod("other", 10))
	c.eventuallyBound(t, "other", "")
	c.addPod(schedulertest.MakePod("slow2", 10, inSlow))
	c.eventuallyBound(t, "slow2", "")
	if c.node("waits") != "" {
		t.Error("a pod was placed by plugins that know nothing")
	}
	third.Unprepared.Store(false)
	source.changed <- struct{}{}
	c.eventuallyBound(t, "waits", "")
}

// TestLateWhileExplaining: who asks why is told that a plugin does not answer, and other
// profiles go on.
func TestLateWhileExplaining(t *testing.T) {
	c, late := startLatePoints(t, 1, nil)
	for _, pod := range []string{"bound", "pending"} {
		if pod == "bound" {
			c.addPod(schedulertest.MakePod(pod, 10, inSlow))
			c.eventuallyBound(t, pod, "n0")
		} else {
			c.addPod(schedulertest.MakePod(pod, 9000, inSlow))
			c.eventuallyTried(t, pod, 1)
		}
		c.nodes.Modify(schedulertest.MakeNode("n0", 4000, map[string]string{"name": "n0", "for": pod}))
		late.next.Store(int32(lateFilter))
		said := make(chan error, 1)
		go func() {
			_, err := c.sched.Why(bounded(t), "a", pod, explain.Options{Now: true})
			said <- err
		}()
		q := <-late.questions
		if !q.yielding {
			t.Fatal("the cycle could not be left")
		}
		for i := range 4 {
			name := fmt.Sprint("sound-", pod, i)
			c.addPod(schedulertest.MakePod(name, 1))
			c.eventuallyBound(t, name, "n0")
		}
		q.answer <- nil
		if err := <-said; !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "ask again") {
			t.Errorf("%s: %v", pod, err)
		}
		x, err := c.sched.Why(bounded(t), "a", pod, explain.Options{Now: true})
		if err != nil || x.Nodes != 1 {
			t.Errorf("%s, asked again: %+v, %v", pod, x, err)
		}
	}
	// The pod that was taken off its node for the question is there.
	c.addPod(schedulertest.MakePod("greedy", 3990))
	if d := c.eventuallyTried(t, "greedy", 1); d.Node != "" {
		t.Error("a pod has the place of one that is there")
	}
}

// slowExtender manages pods with a label and answers when it is let.
type slowExtender struct {
	questions chan *lateQuestion
	verb      atomic.Pointer[string]
}

func (e *slowExtender) wait(ctx context.Context, verb string) error {
	if late := e.verb.Load(); late == nil || *late != verb {
		return nil
	}
	if verb != "bind" {
		e.verb.Store(nil)
	}
	q := &lateQuestion{answer: make(chan error)}
	select {
	case e.questions <- q:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-q.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *slowExtender) Name() string                { return "slow" }
func (e *slowExtender) Ignorable() bool             { return false }
func (e *slowExtender) Interested(pod *v1.Pod) bool { return pod.Labels["managed"] != "" }
func (e *slowExtender) Filters() bool               { return true }
func (e *slowExtender) Prioritizes() bool           { return true }
func (e *slowExtender) Binds() bool                 { return true }
func (e *slowExtender) Preempts() bool              { return true }

func (e *slowExtender) Filter(ctx context.Context, _ *v1.Pod, nodes []*v1.Node) (left []string, _, _ map[string]string, err error) {
	for _, n := range nodes {
		left = append(left, n.Name)
	}
	return left, nil, nil, e.wait(ctx, "filter")
}

func (e *slowExtender) Prioritize(ctx context.Context, _ *v1.Pod, _ []*v1.Node) (map[string]int64, error) {
	return map[string]int64{"n0": 10}, e.wait(ctx, "prioritize")
}

func (e *slowExtender) Preempt(ctx context.Context, _ *v1.Pod, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error) {
	left := map[string]*extenderv1.MetaVictims{}
	for node, v := range victims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: v.NumPDBViolations}
		for _, p := range v.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(p.UID)})
		}
		left[node] = meta
	}
	return left, e.wait(ctx, "preempt")
}

func (e *slowExtender) Bind(ctx context.Context, b *v1.Binding) error {
	if err := e.wait(ctx, "bind"); err != nil {
		return err
	}
	return e.bind(ctx, b)
}

func (e *slowExtender) bind(ctx context.Context, b *v1.Binding) error {
	return (*extenderAPI.Load()).bind(ctx, b)
}

// extenderAPI is where the extender of the test that runs binds.
var extenderAPI atomic.Pointer[api]

// TestLateExtender: an extender that does not answer holds up the profiles whose pods it
// is asked about.
func TestLateExtender(t *testing.T) {
	var asked atomic.Int64
	for _, verb := range []string{"filter", "prioritize", "preempt"} {
		for _, answers := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/answers=%v", verb, answers), func(t *testing.T) {
				e := &slowExtender{questions: make(chan *lateQuestion)}
				c, _ := startLatePoints(t, 2, []any{trier(&asked)}, evicting(&journal{}), func(c *cluster) {
					c.beside = []Extender{e}
					extenderAPI.Store(c.api)
				})
				cpu := int64(10)
				if verb == "preempt" {
					cpu = 3500
					c.addPod(schedulertest.MakePod("small0", 3900, priority(1), on("n0")), schedulertest.MakePod("small1", 3900, priority(1), on("n1")))
					c.addPod(schedulertest.MakePod("seen", 1))
					c.eventuallyBound(t, "seen", "")
				}
				e.verb.Store(&verb)
				c.addPod(schedulertest.MakePod("slow", cpu, inSlow, label("managed", "yes"), priority(9)))
				q := <-e.questions
				c.goOn(t) // when it is late
				q.answer <- map[bool]error{false: schedulertest.ErrBroken}[answers]
				eventually(t, "it is bound in the end", func() bool {
					c.clock.Step(200 * time.Millisecond)
					return c.node("slow") != ""
				})
			})
		}
	}
}

// TestHangingBindHoldsUpItsProfileAlone: neither an extender nor plugins that hang over
// bindings take the places of others.
func TestHangingBindHoldsUpItsProfileAlone(t *testing.T) {
	for _, by := range []string{"extender", "plugins"} {
		t.Run(by, func(t *testing.T) {
			e := &slowExtender{questions: make(chan *lateQuestion)}
			verb := "bind"
			e.verb.Store(&verb)
			release := make(chan struct{})
			let := sync.OnceFunc(func() { close(release) })
			t.Cleanup(let)
			hang := sdk.PreBind{Name: "Hang", PreBind: func(b *sdk.Binding) sdk.Status {
				select {
				case <-release:
				case <-b.Context.Done():
				}
				return sdk.Status{}
			}}
			quick := sdk.PreBind{Name: "Quick", PreBind: func(*sdk.Binding) sdk.Status { return sdk.Status{} }}
			plugins := []any{hang}
			if by == "extender" {
				plugins = nil
			}
			c, _ := startLatePoints(t, 1, plugins, func(c *cluster) {
				c.source.cycle.Store(newCyclePolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, quick))
				if by == "extender" {
					c.beside = []Extender{e}
					extenderAPI.Store(c.api)
				}
			})
			for i := range 12 { // many times as many as there are workers
				c.addPod(schedulertest.MakePod(fmt.Sprint("slow", i), 10, inSlow, label("managed", "yes")))
			}
			eventually(t, "all are decided", func() bool {
				d, ok := c.sched.Explain("a", "slow11")
				return ok && d.Node != ""
			})
			c.goOn(t)
			if c.node("slow0") != "" {
				t.Error("bound without an answer")
			}
			e.verb.Store(nil)
			let()
			var answering sync.WaitGroup
			done := make(chan struct{})
			answering.Go(func() {
				for {
					select {
					case q := <-e.questions:
						q.answer <- nil
					case <-done:
						return
					}
				}
			})
			defer answering.Wait()
			defer close(done)
			for i := range 12 {
				c.eventuallyBound(t, fmt.Sprint("slow", i), "")
			}
		})
	}
}

// TestBindingGoesOnWhenACycleIsOvertaken: a binding that was on its way when a question
// was late is written.
func TestBindingGoesOnWhenACycleIsOvertaken(t *testing.T) {
	release := make(chan struct{})
	work := sdk.PreBind{Name: "Work", PreBind: func(b *sdk.Binding) sdk.Status {
		if b.Pod.Name == "on-its-way" {
			<-release
		}
		return sdk.Status{}
	}}
	c, late := startLatePoints(t, 1, []any{work})
	c.addPod(schedulertest.MakePod("on-its-way", 10, inSlow))
	eventually(t, "it is decided", func() bool { d, ok := c.sched.Explain("a", "on-its-way"); return ok && d.Node != "" })
	late.next.Store(int32(lateFilter))
	c.addPod(schedulertest.MakePod("slow", 20, inSlow))
	q := <-late.questions
	c.goOn(t)
	q.answer <- nil
	eventually(t, "the other is decided", func() bool { d, ok := c.sched.Explain("a", "slow"); return ok && d.Node != "" })
	close(release)
	c.eventuallyBound(t, "slow", "n0")
	c.eventuallyBound(t, "on-its-way", "n0")
}
