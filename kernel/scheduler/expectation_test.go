package scheduler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// telling is an API that keeps book of names written to status.nominatedNodeName and
// of bindings, in their order.
func telling(j *journal) func(*cluster) {
	return func(c *cluster) {
		c.nominate = func(_ context.Context, p *v1.Pod, node string) error {
			j.note("%s:%q", p.Name, node)
			if c.node(p.Name) != "" {
				j.note("too-late")
			}
			c.changePod(p.Name, func(p *v1.Pod) { p.Status.NominatedNodeName = node })
			return nil
		}
		c.refuse = func(name string) error {
			j.note("bind:%s", name)
			return nil
		}
	}
}

// patience is a permit plugin with which pods labelled wait wait until a review that
// is to end it, as their label says.
func patience(over *atomic.Bool) sdk.Permit {
	return sdk.Permit{
		Name: "Patience",
		Permit: func(r *sdk.PermitRequest) sdk.Status {
			if r.Pod.Labels["wait"] == "" {
				return sdk.Status{}
			}
			return sdk.WaitFor(time.Minute)
		},
		Review: func(r *sdk.ReviewRequest) {
			for _, w := range r.Waiting {
				switch {
				case !over.Load():
				case w.Pod.Labels["wait"] == "allowed":
					r.Allow(w.Pod.UID)
				case w.Pod.Labels["wait"] == "rejected":
					r.Reject(w.Pod.UID, "no")
				}
			}
		},
	}
}

// working is a pre-bind plugin that notes whom it works for, and does as the pod's
// label says.
func working(j *journal, pods sdk.Pods) sdk.PreBind {
	return sdk.PreBind{Name: "Work", Pods: pods, PreBind: func(b *sdk.Binding) sdk.Status {
		j.note("work:%s", b.Pod.Name)
		switch b.Pod.Labels["work"] {
		case "refuse":
			return sdk.Refuse("not there")
		case "fail":
			return sdk.Fail(errors.New("broken"))
		}
		return sdk.Status{}
	}}
}

// planning is a reserve plugin that assumes something of the claim of pods labelled
// plan.
func planning() sdk.Reserve {
	return sdk.Reserve{Name: "Plan", Pods: sdk.PodsWithClaims, Reads: []string{claimKind}, Reserve: func(p *sdk.Placement) sdk.Status {
		if p.Pod.Labels["plan"] != "" {
			p.Assume(sdk.Assumption{Kind: claimKind, Namespace: "a", Name: "data", Annotations: map[string]string{"example.com/node": p.NodeName}})
		}
		return sdk.Status{}
	}}
}

func withClaim(c *cluster) {
	c.claims.Add(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data"}})
}

// settled waits until the cycle has taken in what there is and nothing is to be
// written any more.
func (c *cluster) settled(t *testing.T) {
	t.Helper()
	eventually(t, "all is written", func() bool {
		if _, err := c.sched.Why(bounded(t), "a", "p", explain.Options{}); err != nil {
			t.Fatal(err)
		}
		for i := range c.sched.report.patches {
			q := &c.sched.report.patches[i]
			q.mu.Lock()
			waits := len(q.order)
			q.mu.Unlock()
			if waits > 0 {
				return false
			}
		}
		return true
	})
}

// A pod's status names its node before the pod waits for a permit or pre-bind plugins
// work for it, and otherwise costs no write; the name is there before the binding.
func TestNominatedNodeNameForExpectation(t *testing.T) {
	binder := sdk.Bind{Name: "Binder", Bind: func(*sdk.Binding) sdk.Status { return sdk.Status{} }}
	said := func(node string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Status.NominatedNodeName = node }
	}
	var over atomic.Bool
	over.Store(true)
	all := []any{patience(&over), planning()}
	works := func(pods sdk.Pods, more ...any) func(*journal) []any {
		return func(j *journal) []any { return append([]any{working(j, pods)}, more...) }
	}
	idle := func(plugins ...any) func(*journal) []any { return func(*journal) []any { return plugins } }
	for _, tc := range []struct {
		name    string
		plugins func(j *journal) []any
		pod     *v1.Pod
		want    string
	}{
		{"no plugins", idle(), schedulertest.MakePod("p", 1), `bind:p`},
		{"a permit at once", idle(all...), schedulertest.MakePod("p", 1), `bind:p`},
		{"a bind plugin", idle(binder), schedulertest.MakePod("p", 1), `bind:p`},
		{"a wait for a permit", idle(all...), schedulertest.MakePod("p", 1, label("wait", "allowed")), `p:"n0" bind:p`},
		{"pre-bind", works(""), schedulertest.MakePod("p", 1), `p:"n0" work:p bind:p`},
		{"pre-bind and bind", works("", binder), schedulertest.MakePod("p", 1), `p:"n0" work:p bind:p`},
		{"both", works("", all...), schedulertest.MakePod("p", 1, label("wait", "allowed")), `p:"n0" work:p bind:p`},
		{"pre-bind of pods with claims, none", works(sdk.PodsWithClaims, all...), schedulertest.MakePod("p", 1), `bind:p`},
		{"nothing assumed of the claims", works(sdk.PodsWithClaims, all...), schedulertest.MakePod("p", 1, uses("data")), `work:p bind:p`},
		{"something assumed of the claims", works(sdk.PodsWithClaims, all...), schedulertest.MakePod("p", 1, uses("data"), label("plan", "yes")), `p:"n0" work:p bind:p`},
		{"it says so", works(""), schedulertest.MakePod("p", 1, said("n0")), `work:p bind:p`},
		{"it says another", works(""), schedulertest.MakePod("p", 1, said("n9")), `p:"n0" work:p bind:p`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j journal
			c, _ := startCycle(t, 1, tc.plugins(&j), telling(&j), withClaim)
			c.addPod(tc.pod)
			eventually(t, "bound", func() bool {
				c.clock.Step(reviewEvery)
				return c.node("p") == "n0"
			})
			c.stop()
			if got := j.all(); got != tc.want {
				t.Errorf("did %s, want %s", got, tc.want)
			}
		})
	}
}

// A pod that gives its node up takes its name back, once; without having it seen.
func TestExpectationIsTakenBack(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		bind error
		then func(*cluster)
		want string
	}{
		{name: "refused by pre-bind", pod: schedulertest.MakePod("p", 1, label("work", "refuse")), want: `p:"n0" work:p p:""`},
		{name: "failed by pre-bind", pod: schedulertest.MakePod("p", 1, label("work", "fail")), want: `p:"n0" work:p p:""`},
		{name: "not bound", pod: schedulertest.MakePod("p", 1), bind: errors.New("no"), want: `p:"n0" work:p p:""`},
		{name: "no permit", pod: schedulertest.MakePod("p", 1, label("wait", "rejected")), then: func(c *cluster) { c.clock.Step(reviewEvery) }, want: `p:"n0" p:""`},
		{name: "being deleted", pod: schedulertest.MakePod("p", 1, label("wait", "on")), then: func(c *cluster) {
			c.changePod("p", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: c.clock.Now()} })
		}, want: `p:"n0" p:""`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, seen := range []bool{true, false} {
				var j journal
				var over atomic.Bool
				c, _ := startCycle(t, 1, []any{working(&j, ""), patience(&over)}, telling(&j), func(c *cluster) {
					c.refuse = func(string) error { return tc.bind }
					if !seen {
						c.nominate = func(_ context.Context, p *v1.Pod, node string) error {
							j.note("%s:%q", p.Name, node)
							return nil
						}
					}
				})
				c.addPod(tc.pod.DeepCopy())
				if tc.then != nil {
					eventually(t, "it waits", func() bool { return c.outcomes("p") == "permit Patience Wait" && strings.Contains(j.all(), `p:"n0"`) })
					over.Store(true)
					tc.then(c)
				}
				eventually(t, "it is taken back", func() bool { return strings.HasSuffix(j.all(), `p:""`) })
				if d := c.eventuallyTried(t, "p", 1); d.Attempt != 1 {
					t.Errorf("tried %d times", d.Attempt)
				}
				c.settled(t)
				c.stop()
				if got := j.all(); got != tc.want {
					t.Errorf("did %s, want %s", got, tc.want)
				}
			}
		})
	}
}

// The binding waits for the name; the cycle, and pods that are not to have one, do
// not. A name that cannot be written keeps nobody from its node.
func TestBindingWaitsForExpectation(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want string
	}{
		{"pre-bind", schedulertest.MakePod("p", 1, uses("data"), label("plan", "yes")), `plain p:"n0" work:p`},
		{"permit", schedulertest.MakePod("p", 1, label("wait", "allowed")), `plain p:"n0"`},
	} {
		for _, written := range []error{nil, errors.New("no")} {
			t.Run(tc.name, func(t *testing.T) {
				var j journal
				var over atomic.Bool
				over.Store(true)
				release := make(chan error)
				c, _ := startCycle(t, 1, []any{working(&j, sdk.PodsWithClaims), patience(&over), planning()}, withClaim, func(c *cluster) {
					c.nominate = func(ctx context.Context, p *v1.Pod, node string) error {
						select {
						case err := <-release:
							j.note("%s:%q", p.Name, node)
							return err
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				})
				c.addPod(tc.pod.DeepCopy())
				c.eventuallyTried(t, "p", 1)
				c.addPod(schedulertest.MakePod("plain", 1))
				eventually(t, "the plain pod is bound", func() bool {
					c.clock.Step(reviewEvery) // the permit is there
					return c.node("plain") == "n0"
				})
				if c.node("p") != "" {
					t.Error("it was bound before its name was written")
				}
				j.note("plain")
				release <- written
				c.eventuallyBound(t, "p", "n0")
				c.stop()
				if got := j.all(); got != tc.want {
					t.Errorf("did %s, want %s", got, tc.want)
				}
			})
		}
	}
}

// What somebody waits for is written first, with all else that is to be said of the
// pod.
func TestExpectedNotesAreFirst(t *testing.T) {
	pod := func(name string) *v1.Pod { return schedulertest.MakePod(name, 1) }
	tried, node := make(chan struct{}), "n0"
	waits := func(name string) note {
		return note{pod: pod(name), nominated: &node, tried: []chan<- struct{}{tried}}
	}
	words := func(name string) note { return note{pod: pod(name), reason: "Unschedulable", message: name} }
	for _, tc := range []struct {
		name  string
		notes []note
		want  []string
	}{
		{"in order", []note{words("a"), words("b")}, []string{"a a", "b b"}},
		{"one that is new", []note{words("a"), words("b"), waits("c")}, []string{"c  n0 1", "a a", "b b"}},
		{"one that waits", []note{words("a"), words("b"), waits("b")}, []string{"b b n0 1", "a a"}},
		{"one that has more to say", []note{words("a"), waits("b"), words("b")}, []string{"b b n0 1", "a a"}},
		{"one that waits twice", []note{waits("a"), waits("a")}, []string{"a  n0 2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := patchQueue{wake: make(chan struct{}, 1)}
			for _, n := range tc.notes {
				q.push(n)
			}
			var got []string
			for n, ok := q.pop(); ok; n, ok = q.pop() {
				line := n.pod.Name + " " + n.message
				if n.nominated != nil {
					line += " " + *n.nominated + " " + strings.Repeat("I", len(n.tried))
				}
				got = append(got, strings.NewReplacer("II", "2", "I", "1").Replace(line))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("wrote %q, want %q", got, tc.want)
			}
		})
	}
}
