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

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// cyclePolicy is a testPolicy with plugins at the other points, which answer in
// the test's own process.
type cyclePolicy struct {
	*schedulertest.GuestPolicy
	points contractv1.Points
	mu     sync.Mutex
	beside *sdk.Guest // answers what is asked from other goroutines
}

// pointOf is where a kind is asked.
var pointOf = map[string]contractv1.Point{
	sdk.KindPreEnqueue: contractv1.Point_PRE_ENQUEUE, sdk.KindQueueSort: contractv1.Point_QUEUE_SORT, sdk.KindPreFilter: contractv1.Point_PRE_FILTER,
	sdk.KindPostFilter: contractv1.Point_POST_FILTER, sdk.KindPreScore: contractv1.Point_PRE_SCORE, sdk.KindReserve: contractv1.Point_RESERVE,
	sdk.KindPermit: contractv1.Point_PERMIT, sdk.KindPreBind: contractv1.Point_PRE_BIND, sdk.KindBind: contractv1.Point_BIND, sdk.KindPostBind: contractv1.Point_POST_BIND,
}

func newCyclePolicy(t testing.TB, source func() *contractv1.Delta, plugins ...any) *cyclePolicy {
	t.Helper()
	p := &cyclePolicy{GuestPolicy: schedulertest.NewGuestPolicy(t, source, []sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode}, []sdk.Priority{schedulertest.LeastCPU}), points: contractv1.Points{}}
	all := append([]any{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.LeastCPU}, plugins...)
	for _, guest := range []**sdk.Guest{&p.Guest, &p.beside} {
		g, err := sdk.GuestOf(all...)
		if err != nil {
			t.Fatal(err)
		}
		*guest = g
	}
	for _, info := range p.Guest.Plugins()[3:] {
		hearing := p.hearing(info)
		if info.Kind == sdk.KindPredicate {
			p.PredicateInfos = append(p.PredicateInfos, PredicateInfo{Name: info.Name, Scope: string(info.Scope), Pods: string(info.Pods), Reads: info.Reads, Hearing: hearing})
			continue
		}
		at := pointOf[info.Kind]
		p.points[at] = append(p.points[at], contractv1.PointInfo{Name: info.Name, Scope: string(info.Scope), Pods: string(info.Pods), Reads: info.Reads, Hearing: hearing, ByClass: info.ByClass, Samples: info.Samples, Ranks: info.Ranks})
	}
	return p
}

// hearing is what a plugin declares, and lists those that can be asked.
func (p *cyclePolicy) hearing(info sdk.PluginInfo) contractv1.Hearing {
	h := contractv1.Hearing{Hears: info.Events != nil}
	for _, i := range info.Events {
		h.Events = append(h.Events, &contractv1.Interest{Kind: i.Kind, Actions: uint32(i.Actions), Hint: i.Helps != nil})
	}
	if slices.ContainsFunc(h.Events, (*contractv1.Interest).GetHint) {
		at := contractv1.Point_QUEUEING_HINT
		p.points[at] = append(p.points[at], contractv1.PointInfo{Name: info.Name})
	}
	return h
}

// Filter asks by name: predicates are not the first plugins of the guest here.
func (p *cyclePolicy) Filter(_ context.Context, i int, class uint32, nodes, out []uint32) error {
	if p.Broken.Load() {
		return schedulertest.ErrBroken
	}
	return p.Guest.Filter(p.Guest.Index(p.PredicateInfos[i].Name), class, nodes, out)
}

func (p *cyclePolicy) Reasons(i int, verdict uint32) []string {
	return p.Guest.Reasons(p.Guest.Index(p.PredicateInfos[i].Name), verdict)
}

// Evaluate leaves everything to Filter and Score.
func (p *cyclePolicy) Evaluate(context.Context, *contractv1.Evaluation) {}

func (p *cyclePolicy) Points() contractv1.Points { return p.points }

func (p *cyclePolicy) Cycle(ctx context.Context, c *contractv1.CycleCall) {
	req := &contractv1.CycleRequest{
		Pods: c.Pods, Class: c.Class, Node: c.Node, NodeName: c.NodeName, HasNode: c.HasNode, Nodes: c.Nodes, Refused: c.Refused, Refusals: c.Refusals,
		Events: c.Events, Classes: c.Classes, Standing: c.Standing, Candidates: c.Candidates, Helpful: c.Helpful,
	}
	guest := p.Guest
	for _, s := range c.Steps {
		req.Steps = append(req.Steps, &contractv1.Step{Plugin: p.points[s.Point.Of()][s.Plugin].Name, Point: s.Point, Waiting: s.Waiting})
		if s.Point.Beside() {
			guest = p.beside
		}
	}
	data, err := proto.Marshal(req)
	resp := &contractv1.CycleResponse{}
	if err == nil {
		if guest == p.beside {
			// As in a process, several at once: the guest itself is not touched.
			p.mu.Lock()
			defer p.mu.Unlock()
		}
		var answer []byte
		if answer, err = guest.Cycle(ctx, data); err == nil {
			err = proto.Unmarshal(answer, resp)
		}
	}
	c.Results = resp.Results
	if err != nil {
		c.Results = []*contractv1.StepResult{{Code: contractv1.Code_ERROR, Reasons: []string{err.Error()}}}
	}
}

// journal is what plugins noted, from any goroutine.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) all() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, " ")
}

// startCycle runs a scheduler whose profile has the plugins, over nodes n0, n1 … .
func startCycle(t *testing.T, nodes int, plugins []any, prepare ...func(*cluster)) (*cluster, *cyclePolicy) {
	t.Helper()
	var policy *cyclePolicy
	c := start(t, Config{Seed: 1}, append([]func(*cluster){func(c *cluster) {
		policy = newCyclePolicy(t, func() *contractv1.Delta { return c.sched.Replica() }, plugins...)
		c.source.cycle.Store(policy)
		for i := range nodes {
			c.nodes.Add(schedulertest.MakeNode(fmt.Sprint("n", i), 4000, map[string]string{"name": fmt.Sprint("n", i)}))
		}
	}}, prepare...)...)
	return c, policy
}

func label(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Labels == nil {
			p.Labels = map[string]string{}
		}
		p.Labels[key] = value
	}
}

// outcomes of the last decision about a pod, in one line each.
func (c *cluster) outcomes(pod string) string {
	d, _ := c.sched.Explain("a", pod)
	var lines []string
	for _, o := range d.Outcomes {
		lines = append(lines, strings.TrimSpace(fmt.Sprint(o.Point, " ", o.Plugin, " ", o.Code, " ", strings.Join(o.Reasons, ";"))))
	}
	return strings.Join(lines, ", ")
}

func TestQueueIsOrderedByAPlugin(t *testing.T) {
	key := sdk.QueueSort{Name: "ByLabel", Key: func(p *sdk.QueuedPod) sdk.SortKey {
		return sdk.SortKey{Number: int64(len(p.Labels["rank"])), Text: p.Name}
	}}
	c, _ := startCycle(t, 1, []any{key}, func(c *cluster) {
		// They are there before the policy is, and enter together.
		c.addPod(schedulertest.MakePod("d", 1, label("rank", "xxx"), priority(100)), schedulertest.MakePod("c", 1, label("rank", "x")), schedulertest.MakePod("a", 1, label("rank", "x")), schedulertest.MakePod("b", 1))
	})
	eventually(t, "all bound", func() bool { return len(c.bound()) == 4 })
	// Bindings are written by workers; the decisions tell the order.
	var order []string
	for _, name := range []string{"a", "b", "c", "d"} {
		d, _ := c.sched.Explain("a", name)
		order = append(order, fmt.Sprint(d.Total, name))
	}
	if got := decisionOrder(c); !slices.Equal(got, []string{"b", "a", "c", "d"}) {
		t.Errorf("decided in the order %v (%v)", got, order)
	}
}

// decisionOrder is the order in which decisions were recorded.
func decisionOrder(c *cluster) []string {
	var order []string
	for _, key := range c.sched.record.Pods() {
		order = append(order, key.Name)
	}
	return order
}

func TestPreEnqueueKeepsPodsOut(t *testing.T) {
	ready := sdk.PreEnqueue{Name: "Ready", Reads: []string{"Service"}, Admit: func(c *sdk.Cluster, p *sdk.QueuedPod) sdk.Status {
		if p.Labels["ready"] == "" && c.Object("Service", "a", "go") == nil {
			return sdk.Refuse("not ready")
		}
		return sdk.Status{}
	}}
	c, _ := startCycle(t, 1, []any{ready})
	c.addPod(schedulertest.MakePod("early", 1), schedulertest.MakePod("late", 1), schedulertest.MakePod("prompt", 1, label("ready", "yes")))
	c.eventuallyBound(t, "prompt", "n0")
	eventually(t, "early is turned away", func() bool { return c.outcomes("early") == "preEnqueue Ready Unschedulable not ready" })
	if d, _ := c.sched.Explain("a", "early"); d.Attempt != 0 {
		t.Errorf("it was tried: %+v", d)
	}
	if _, n := c.lastCondition("early"); n != 0 {
		t.Error("its users were told")
	}
	c.changePod("early", label("ready", "yes"))
	c.eventuallyBound(t, "early", "n0")
	if c.node("late") != "" {
		t.Error("late was bound")
	}
	c.service.Add(&v1.Service{ObjectMeta: schedulertest.MakePod("go", 1).ObjectMeta})
	c.eventuallyBound(t, "late", "n0")
}

// A pre-enqueue plugin that cannot answer is asked again after a back-off, about the
// pods it was asked about, and the cycle goes on meanwhile.
func TestPreEnqueueThatFailsHoldsNobodyUp(t *testing.T) {
	var broken atomic.Bool
	var asked atomic.Int64
	broken.Store(true)
	moody := sdk.PreEnqueue{Name: "Moody", Admit: func(_ *sdk.Cluster, p *sdk.QueuedPod) sdk.Status {
		if p.Labels["moody"] != "" {
			asked.Add(1)
			if broken.Load() {
				panic("on purpose")
			}
		}
		return sdk.Status{}
	}}
	c, _ := startCycle(t, 1, []any{moody})
	c.addPod(schedulertest.MakePod("first", 1, label("moody", "yes")))
	eventually(t, "first met the failure", func() bool { return asked.Load() > 0 })
	c.addPod(schedulertest.MakePod("other", 1))
	eventually(t, "other is bound", func() bool { return c.node("other") == "n0" }) // the clock stands still
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times before the end of the back-off", n)
	}
	broken.Store(false)
	eventually(t, "first is bound", func() bool {
		c.clock.Step(time.Second)
		return c.node("first") == "n0"
	})
}

func TestPreFilterNarrowsTheNodes(t *testing.T) {
	var asked int
	named := sdk.PreFilter{Name: "Named", Narrow: func(c *sdk.Cluster, p *sdk.Pod) ([]*sdk.Node, sdk.Status) {
		asked++
		switch p.Labels["at"] {
		case "":
			return nil, sdk.Skipped()
		case "nowhere":
			return nil, sdk.RefuseForGood("pod asks for nowhere")
		}
		left := []*sdk.Node{}
		for n := range c.Nodes {
			if n.Name == p.Labels["at"] {
				left = append(left, n)
			}
		}
		return left, sdk.Status{}
	}}
	c, _ := startCycle(t, 3, []any{named})
	c.addPod(schedulertest.MakePod("p1", 1, label("at", "n2")), schedulertest.MakePod("p2", 1, label("at", "n1")), schedulertest.MakePod("p3", 1, label("at", "n1")), schedulertest.MakePod("p4", 1))
	c.eventuallyBound(t, "p1", "n2")
	c.eventuallyBound(t, "p2", "n1")
	c.eventuallyBound(t, "p3", "n1")
	c.eventuallyBound(t, "p4", "")
	c.addPod(schedulertest.MakePod("none", 1, label("at", "n9")), schedulertest.MakePod("nowhere", 1, label("at", "nowhere")), schedulertest.MakePod("big", 9000, label("at", "n2")))
	for pod, want := range map[string]string{
		"none":    "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [Named].",
		"nowhere": "0/3 nodes are available: pod asks for nowhere.",
		"big":     "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [Named].",
	} {
		if d := c.eventuallyTried(t, pod, 1); d.Message != want {
			t.Errorf("%s: %q, want %q", pod, d.Message, want)
		}
	}
	// An explanation names who left nodes out, and counts what would fit without it.
	for pod, want := range map[string]struct {
		reason         string
		refused, alone int
	}{
		"none":    {"node(s) didn't satisfy plugin(s) [Named]", 3, 3},
		"nowhere": {"pod asks for nowhere", 3, 3},
		"big":     {"node(s) didn't satisfy plugin(s) [Named]", 2, 0},
	} {
		x, err := c.sched.Why(bounded(t), "a", pod, explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if p := x.Plugins[0]; p.Name != "Named" || p.Kind != sdk.KindPreFilter || p.Refused != want.refused {
			t.Errorf("%s: the first plugin is %+v", pod, p)
		}
		i := slices.IndexFunc(x.Change.Predicates, func(o explain.Obstacle) bool { return o.Predicate == "Named" })
		if i < 0 || x.Change.Predicates[i].Alone != want.alone || x.Change.Predicates[i].Refused != want.refused {
			t.Errorf("%s: what would have to change: %+v", pod, x.Change.Predicates)
		}
		for _, a := range x.Details {
			left := pod != "big" || a.Node != "n2"
			if v := answerOf(t, a, "Named"); left != (v.Answer == explain.AnswerRefuses) || left && !slices.Equal(v.Reasons, []string{want.reason}) {
				t.Errorf("%s: %s is told to be %s for %q", pod, a.Node, v.Answer, v.Reasons)
			}
		}
	}
	c.nodes.Add(schedulertest.MakeNode("n9", 4000, nil))
	eventually(t, "the new node is taken", func() bool {
		c.clock.Step(time.Second)
		return c.node("none") == "n9"
	})
	c.stop()
	// Six classes; pods that are bound do not make it ask again.
	if asked > 14 {
		t.Errorf("asked %d times", asked)
	}
}

func TestPreScoreAndErrors(t *testing.T) {
	var seen []int
	look := sdk.PreScore{Name: "Look", Look: func(_ *sdk.Cluster, p *sdk.Pod, nodes []*sdk.Node) sdk.Status {
		seen = append(seen, len(nodes))
		if p.Labels["at"] == "fail" {
			return sdk.Fail(errors.New("no idea"))
		}
		return sdk.Status{}
	}}
	c, _ := startCycle(t, 3, []any{look})
	c.addPod(schedulertest.MakePod("p", 1))
	c.eventuallyBound(t, "p", "")
	c.addPod(schedulertest.MakePod("q", 1, label("at", "fail")))
	if d := c.eventuallyTried(t, "q", 1); d.Message != `running PreScore plugin "Look": no idea` {
		t.Errorf("message %q", d.Message)
	}
	c.stop()
	if seen[0] != 3 {
		t.Errorf("told of %v nodes", seen)
	}
}

func TestPostFilterEvictsAndNominates(t *testing.T) {
	preempt := sdk.PostFilter{Name: "Preempt", Nominate: func(f *sdk.Failure) (sdk.Nomination, sdk.Status) {
		for _, r := range f.Refused {
			if r.Plugin != "FitCPU" {
				continue
			}
			n := sdk.Nomination{Node: r.Node}
			for _, p := range r.Node.Pods {
				n.Victims = append(n.Victims, p)
			}
			return n, sdk.Status{}
		}
		return sdk.Nomination{}, sdk.Refuse("no victims found for incoming pod")
	}}
	var j journal
	c, _ := startCycle(t, 1, []any{preempt}, func(c *cluster) {
		c.evict = func(_ context.Context, victim *v1.Pod, condition *v1.PodCondition) error {
			j.note("evict %s %s %s", victim.Name, condition.Type, condition.Reason)
			c.deletePod(victim.Name)
			return nil
		}
		c.nominate = func(_ context.Context, p *v1.Pod, node string) error {
			j.note("nominate %s %s", p.Name, node)
			return nil
		}
	})
	c.addPod(schedulertest.MakePod("small", 3999, priority(1)))
	c.eventuallyBound(t, "small", "n0")
	c.addPod(schedulertest.MakePod("selective", 1, priority(9), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "x"} }))
	if d := c.eventuallyTried(t, "selective", 1); d.Message != "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no victims found for incoming pod" {
		t.Errorf("message %q", d.Message)
	}
	c.addPod(schedulertest.MakePod("equal", 4000, priority(1)))
	c.eventuallyTried(t, "equal", 1)
	eventually(t, "an equal is no victim", func() bool { return strings.Contains(c.outcomes("equal"), "priority 1 is not below 1") })
	never := v1.PreemptNever
	c.addPod(schedulertest.MakePod("polite", 4000, priority(9), func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never }))
	c.eventuallyTried(t, "polite", 1)
	if j.all() != "" {
		t.Errorf("done: %s", j.all())
	}
	c.addPod(schedulertest.MakePod("big", 4000, priority(10)))
	eventually(t, "the victim is evicted, and the node noted", func() bool {
		return strings.Contains(j.all(), "nominate big n0") && strings.Contains(j.all(), "evict small DisruptionTarget PreemptionByScheduler")
	})
	eventually(t, "it takes the place", func() bool {
		c.clock.Step(time.Second)
		return c.node("big") == "n0"
	})
	eventually(t, "it is told", func() bool {
		return c.hasEvent("small Normal Preempted Preempting: Preempted by pod pod-big on node n0")
	})
}

// reserve is a plugin that notes what it is asked, and refuses who asks for it.
func reserve(j *journal, name string) sdk.Reserve {
	return sdk.Reserve{
		Name: name,
		Reserve: func(p *sdk.Placement) sdk.Status {
			if p.Node.Pods[p.Pod.UID] == nil {
				return sdk.Fail(errors.New("the pod is not on its node"))
			}
			j.note("+%s", name)
			switch p.Pod.Labels[name] {
			case "refuse":
				return sdk.Refuse("no room at " + name)
			case "fail":
				return sdk.Fail(errors.New("broken"))
			}
			return sdk.Status{}
		},
		Unreserve: func(p *sdk.Placement) {
			if p.NodeName == "" || p.Node != nil && p.Node.Pods[p.Pod.UID] != nil {
				j.note("!")
			}
			j.note("-%s", name)
		},
	}
}

// Whatever fails from Reserve on, each reserve plugin is told, in reverse order.
func TestUnreserveInReverse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*v1.Pod)
		want   string
		told   string
		reason string
	}{
		{"reserve refuses", label("B", "refuse"), "+A +B -C -B -A", "0/1 nodes are available: 1 no room at B.", v1.PodReasonUnschedulable},
		{"reserve fails", label("C", "fail"), "+A +B +C -C -B -A", `running Reserve plugin "C": broken`, v1.PodReasonSchedulerError},
		{"permit refuses", label("permit", "no"), "+A +B +C -C -B -A", "0/1 nodes are available: 1 not now.", v1.PodReasonUnschedulable},
		{"pre-bind refuses", label("pre", "no"), "+A +B +C -C -B -A", "0/1 nodes are available: 1 no volume.", v1.PodReasonUnschedulable},
		{"bind fails", label("bind", "fail"), "+A +B +C -C -B -A", `running Bind plugin "Write": conflict`, v1.PodReasonSchedulerError},
		{"the API refuses", label("bind", "refused"), "+A +B +C -C -B -A", `running Bind plugin "DefaultBinder": no`, v1.PodReasonSchedulerError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j journal
			c, _ := startCycle(t, 1, []any{
				reserve(&j, "A"), reserve(&j, "B"), reserve(&j, "C"),
				sdk.Permit{Name: "Permit", Permit: func(r *sdk.PermitRequest) sdk.Status {
					if r.Pod.Labels["permit"] == "no" {
						return sdk.Refuse("not now")
					}
					return sdk.Status{}
				}},
				sdk.PreBind{Name: "Volume", PreBind: func(b *sdk.Binding) sdk.Status {
					if b.Pod.Labels["pre"] == "no" {
						return sdk.Refuse("no volume")
					}
					return sdk.Status{}
				}},
				sdk.Bind{Name: "Write", Bind: func(b *sdk.Binding) sdk.Status {
					if b.Pod.Labels["bind"] == "fail" {
						return sdk.Fail(errors.New("conflict"))
					}
					return sdk.Status{}
				}},
			}, func(c *cluster) {
				c.refuse = func(name string) error {
					if tc.name == "the API refuses" {
						return errors.New("no")
					}
					return nil
				}
			})
			c.addPod(schedulertest.MakePod("p", 1, tc.change))
			eventually(t, "it is told", func() bool {
				condition, n := c.lastCondition("p")
				return n > 0 && condition.Message == tc.told && condition.Reason == tc.reason
			})
			eventually(t, "it is taken back", func() bool { return strings.Count(j.all(), "-") == 3 })
			if got := j.all(); got != tc.want {
				t.Errorf("asked %s, want %s", got, tc.want)
			}
			// What refused it once lets it pass when it changes.
			c.mu.Lock()
			c.refuse = nil
			c.mu.Unlock()
			c.changePod("p", func(p *v1.Pod) { p.Labels = map[string]string{"other": "yes"} })
			eventually(t, "it is bound in the end", func() bool {
				c.clock.Step(time.Second)
				return c.node("p") == "n0"
			})
		})
	}
}

// gang holds pods until all members of their group are there.
func gang(j *journal) sdk.Permit {
	return sdk.Permit{
		Name: "Gang",
		Permit: func(r *sdk.PermitRequest) sdk.Status {
			group := r.Pod.Labels["group"]
			if group == "" {
				return sdk.Status{}
			}
			var members []string
			for _, w := range r.Waiting {
				if w.Pod.Labels["group"] == group {
					members = append(members, w.Pod.UID)
				}
			}
			if len(members)+1 < 3 {
				return sdk.WaitFor(20 * time.Second)
			}
			for _, uid := range members {
				r.Allow(uid)
			}
			return sdk.Status{}
		},
		Review: func(r *sdk.ReviewRequest) {
			for _, w := range r.Waiting {
				if w.Pod.Labels["hopeless"] != "" {
					r.Reject(w.Pod.UID, "hopeless")
				}
			}
		},
	}
}

func TestPermit(t *testing.T) {
	var j journal
	c, _ := startCycle(t, 2, []any{reserve(&j, "A"), gang(&j)})
	group := label("group", "g")
	c.addPod(schedulertest.MakePod("g1", 1, group), schedulertest.MakePod("g2", 1, group), schedulertest.MakePod("alone", 1))
	c.eventuallyBound(t, "alone", "")
	eventually(t, "both wait", func() bool { return c.outcomes("g1") == "permit Gang Wait" && c.outcomes("g2") == "permit Gang Wait" })
	if c.node("g1") != "" || c.node("g2") != "" {
		t.Fatal("a member was bound before the others")
	}
	c.addPod(schedulertest.MakePod("g3", 1, group))
	for _, p := range []string{"g1", "g2", "g3"} {
		c.eventuallyBound(t, p, "")
	}
	if strings.Contains(j.all(), "-") {
		t.Errorf("taken back: %s", j.all())
	}

	c.addPod(schedulertest.MakePod("h1", 1, label("group", "h")))
	eventually(t, "it waits", func() bool { return c.outcomes("h1") == "permit Gang Wait" })
	c.clock.Step(21 * time.Second)
	const late = "0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Gang."
	eventually(t, "its time is over", func() bool { condition, n := c.lastCondition("h1"); return n > 0 && condition.Message == late })
	eventually(t, "it is taken back", func() bool { return strings.Contains(j.all(), "-A") })

	c.addPod(schedulertest.MakePod("i1", 1, label("group", "i"), label("hopeless", "yes")))
	eventually(t, "it waits", func() bool { d, _ := c.sched.Explain("a", "i1"); return len(d.Outcomes) > 0 })
	eventually(t, "review rejects it", func() bool {
		c.clock.Step(300 * time.Millisecond)
		return c.outcomes("i1") == "permit Gang Unschedulable hopeless"
	})
}

// What a permit plugin waits for stands in the explanation while the pod waits, and in the
// condition and the event when the time is over.
func TestWaitSaysWhy(t *testing.T) {
	slow := sdk.Permit{Name: "Slow", Permit: func(*sdk.PermitRequest) sdk.Status {
		return sdk.WaitFor(20*time.Second, "1 of 3 members have a node", "no licence is free")
	}}
	c, _ := startCycle(t, 1, []any{slow})
	c.addPod(schedulertest.MakePod("p", 1))
	eventually(t, "it waits", func() bool {
		return c.outcomes("p") == "permit Slow Wait 1 of 3 members have a node;no licence is free"
	})
	c.clock.Step(21 * time.Second)
	const late = "0/1 nodes are available: 1 rejected due to timeout after waiting 20s at plugin Slow: 1 of 3 members have a node, no licence is free."
	eventually(t, "its time is over", func() bool { condition, n := c.lastCondition("p"); return n > 0 && condition.Message == late })
	eventually(t, "the event says it", func() bool { return c.hasEvent("p Warning FailedScheduling Scheduling: " + late) })
}

// A pod that is deleted while it waits gives up its node.
func TestDeletedWhileWaiting(t *testing.T) {
	var j journal
	c, _ := startCycle(t, 1, []any{reserve(&j, "A"), gang(&j)})
	c.addPod(schedulertest.MakePod("g1", 4000, label("group", "g")), schedulertest.MakePod("g2", 1, label("group", "g"), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "x"} }))
	eventually(t, "it waits", func() bool { return c.outcomes("g1") == "permit Gang Wait" })
	c.addPod(schedulertest.MakePod("next", 4000))
	c.eventuallyTried(t, "next", 1)
	c.deletePod("g1")
	eventually(t, "the next one has its place", func() bool {
		c.clock.Step(time.Second)
		return c.node("next") == "n0"
	})
	if got := j.all(); got != "+A -A +A" {
		t.Errorf("asked %s", got)
	}
}

// A permit plugin that leaves the profile holds nobody.
func TestOrphansAreLetGo(t *testing.T) {
	var j journal
	c, _ := startCycle(t, 1, []any{gang(&j)})
	c.addPod(schedulertest.MakePod("g1", 1, label("group", "g")))
	eventually(t, "it waits", func() bool { return c.outcomes("g1") == "permit Gang Wait" })
	c.source.cycle.Store(newCyclePolicy(t, func() *contractv1.Delta { return c.sched.Replica() }))
	c.source.changed <- struct{}{}
	c.eventuallyBound(t, "g1", "n0")
}

func TestBindPlugins(t *testing.T) {
	var j journal
	c, _ := startCycle(t, 1, []any{
		reserve(&j, "A"),
		sdk.Bind{Name: "First", Bind: func(b *sdk.Binding) sdk.Status {
			switch b.Pod.Labels["bind"] {
			case "annotate":
				b.Annotations = map[string]string{"example.com/device": "7"}
				return sdk.Status{}
			case "own", "lie":
				j.note("own:%s", b.NodeName)
				return sdk.Bound()
			}
			return sdk.Skipped()
		}},
		sdk.Bind{Name: "Second", Bind: func(b *sdk.Binding) sdk.Status { j.note("second"); return sdk.Skipped() }},
		sdk.PostBind{Name: "After", PostBind: func(b *sdk.Binding) { j.note("after:%s", b.Pod.Name) }},
	}, func(c *cluster) { c.nodes.Add(schedulertest.MakeNode("other", 1, map[string]string{"name": "other"})) })
	c.addPod(schedulertest.MakePod("a", 100, label("bind", "annotate")), schedulertest.MakePod("s", 100))
	c.eventuallyBound(t, "a", "n0")
	c.eventuallyBound(t, "s", "n0")
	eventually(t, "told", func() bool { return strings.Contains(j.all(), "after:a") && strings.Contains(j.all(), "after:s") })
	if c.annotation("a", "example.com/device") != "7" || c.annotation("s", "example.com/device") != "" {
		t.Error("the annotation is not on the pod, or on another")
	}
	if strings.Count(j.all(), "second") != 1 {
		t.Errorf("asked %s", j.all())
	}
	// A plugin that binds by itself: the host writes nothing.
	c.addPod(schedulertest.MakePod("o", 100, label("bind", "own")))
	eventually(t, "told", func() bool { return strings.Contains(j.all(), "after:o") })
	if c.node("o") != "" {
		t.Fatal("the host bound it")
	}
	c.changePod("o", func(p *v1.Pod) { p.Spec.NodeName = "n0" })
	// One that bound it elsewhere: what was reserved is taken back.
	c.addPod(schedulertest.MakePod("l", 100, label("bind", "lie")))
	eventually(t, "told", func() bool { return strings.Contains(j.all(), "after:l") })
	c.changePod("l", func(p *v1.Pod) { p.Spec.NodeName = "other" })
	eventually(t, "taken back", func() bool { return strings.Count(j.all(), "-A") == 1 })
	// One that said so and did not: it is tried again when the assumption ends.
	c.addPod(schedulertest.MakePod("n", 100, label("bind", "lie")))
	eventually(t, "told", func() bool { return strings.Contains(j.all(), "after:n") })
	eventually(t, "tried again", func() bool {
		c.clock.Step(30 * time.Second)
		return strings.Count(j.all(), "after:n") > 1
	})
}

// Where a profile names bind plugins and not the kernel, a pod that all of them skip
// is not bound, as by kube-scheduler: it is told, and tried again.
func TestSkippedByAllBinders(t *testing.T) {
	var j journal
	c, _ := startCycle(t, 1, []any{
		reserve(&j, "A"),
		sdk.Bind{Name: "First", Bind: func(*sdk.Binding) sdk.Status { return sdk.Skipped() }},
		sdk.Bind{Name: "Second", Bind: func(b *sdk.Binding) sdk.Status {
			if b.Pod.Labels["bind"] == "yes" {
				return sdk.Status{}
			}
			return sdk.Skipped()
		}},
	}, func(c *cluster) {
		c.counts = NewMetrics()
		c.source.cycle.Load().points[contractv1.Point_BIND][1].Last = true
	})
	c.addPod(schedulertest.MakePod("other", 100, label("bind", "yes")))
	c.eventuallyBound(t, "other", "n0")
	c.addPod(schedulertest.MakePod("p", 100))
	const want = `running Bind plugin "Second": it skips the pod, and no other plugin binds: add DefaultBinder to the profile's bind`
	eventually(t, "it is told", func() bool {
		condition, _ := c.lastCondition("p")
		return condition.Reason == v1.PodReasonSchedulerError && condition.Message == want && c.hasEvent("p Warning FailedScheduling Scheduling: "+want)
	})
	if c.node("p") != "" {
		t.Error("the host bound it")
	}
	eventually(t, "what was reserved is taken back", func() bool { return strings.Contains(j.all(), "-A") })
	for status, n := range map[string]float64{"Skip": 1, "Success": 1} {
		if got := sample(t, c.counts, "scheduler_framework_extension_point_duration_seconds", map[string]string{"extension_point": "Bind", "status": status}); got != n {
			t.Errorf("%v times %s, want %v", got, status, n)
		}
	}
	c.changePod("p", func(p *v1.Pod) { p.Generation++; p.Labels = map[string]string{"bind": "yes"} })
	eventually(t, "bound at last", func() bool {
		c.clock.Step(time.Second)
		return c.node("p") == "n0"
	})
}

// A pod that waits at permit and whose place another takes is not evicted: it gives
// its node up and is tried again, which both are told in kube-scheduler's words.
func TestPreemptedWhileWaiting(t *testing.T) {
	var j journal
	var asked atomic.Int64
	c, _ := startCycle(t, 1, []any{reserve(&j, "A"), gang(&j), trier(&asked)}, evicting(&j), func(c *cluster) { c.counts = NewMetrics() })
	c.addPod(schedulertest.MakePod("waits", 4000, priority(1), label("group", "g")))
	eventually(t, "it waits", func() bool { return c.outcomes("waits") == "permit Gang Wait" })
	c.addPod(schedulertest.MakePod("urgent", 4000, priority(10)))
	c.eventuallyBound(t, "urgent", "n0")
	const words = "waiting on permit for pod: preempted"
	eventually(t, "the condition", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.conditions["waits"], func(condition v1.PodCondition) bool {
			return condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse && condition.Reason == v1.PodReasonSchedulerError && condition.Message == words
		})
	})
	for _, event := range []string{"Warning FailedScheduling Scheduling: " + words, "Normal Preempted Preempting: Preempted by pod pod-urgent on node n0 (in kube-scheduler memory)."} {
		eventually(t, event, func() bool { return c.hasEvent("waits " + event) })
	}
	if strings.Contains(j.all(), "evict") {
		t.Errorf("did %s", j.all())
	}
	eventually(t, "one wait ended with an error", func() bool {
		return sample(t, c.counts, "scheduler_permit_wait_duration_seconds", map[string]string{"result": "Error"}) == 1
	})
	c.deletePod("urgent")
	eventually(t, "it has its turn again", func() bool {
		c.clock.Step(time.Second)
		d, _ := c.sched.Explain("a", "waits")
		return d.Attempt > 1 && strings.Contains(c.outcomes("waits"), "permit Gang Wait")
	})
}

// A binding plugin that never returns holds up its own pods and no others.
func TestHangingPreBindHoldsNobodyUp(t *testing.T) {
	c, policy := startCycle(t, 1, []any{sdk.PreBind{Name: "Slow", PreBind: func(b *sdk.Binding) sdk.Status { return sdk.Status{} }}})
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	policy.mu.Lock() // as every call does that runs beside
	for i := range 100 {
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), 1))
	}
	eventually(t, "all are decided", func() bool {
		for i := range 100 {
			if d, ok := c.sched.Explain("a", fmt.Sprint("p", i)); !ok || d.Node == "" {
				return false
			}
		}
		return true
	})
	if len(c.bound()) > 0 {
		t.Error("bound without the plugin")
	}
	policy.mu.Unlock()
	eventually(t, "all are bound", func() bool { return len(c.bound()) == 100 })
}

// gates is what plugins/points/schedulinggates is.
var gates = sdk.PreEnqueue{
	Name: "Gates", ByClass: true,
	Events: []sdk.Interest{{Kind: sdk.KindPod, Actions: sdk.ActionUpdatePodSchedulingGatesEliminated}},
	Admit: func(_ *sdk.Cluster, p *sdk.QueuedPod) sdk.Status {
		if len(p.SchedulingGates) > 0 {
			return sdk.RefuseForGood(fmt.Sprintf("waiting for scheduling gates: %v", p.SchedulingGates))
		}
		return sdk.Status{}
	},
}
