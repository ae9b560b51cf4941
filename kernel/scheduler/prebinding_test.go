package scheduler

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
)

// A pod whose place another takes while pre-bind plugins work for it is not evicted:
// they are called off, it gives its node up and is tried again, told in
// kube-scheduler's words.
func TestPreemptedInPreBind(t *testing.T) {
	for _, tc := range []struct {
		name    string
		listens bool // the plugin ends with its context
	}{{"the plugin ends", true}, {"the plugin goes on to its end", false}} {
		t.Run(tc.name, func(t *testing.T) {
			var j, did journal
			var asked, calls atomic.Int64
			release := make(chan struct{})
			work := sdk.PreBind{Name: "Work", PreBind: func(b *sdk.Binding) sdk.Status {
				if b.Pod.Name != "low" || calls.Add(1) > 1 {
					return sdk.Status{}
				}
				did.note("works")
				if tc.listens {
					<-b.Context.Done()
					return sdk.Fail(b.Context.Err())
				}
				<-release
				return sdk.Status{}
			}}
			c, _ := startCycle(t, 1, []any{reserve(&j, "A"), work, trier(&asked)}, evicting(&j))
			c.addPod(schedulertest.MakePod("low", 4000, priority(1)))
			eventually(t, "the plugin works", func() bool { return did.all() == "works" })
			c.addPod(schedulertest.MakePod("urgent", 4000, priority(10)))
			eventually(t, "its place is taken", func() bool {
				return c.hasEvent("low Normal Preempted Preempting: Preempted by pod pod-urgent on node n0 (in kube-scheduler memory).")
			})
			close(release)
			c.eventuallyBound(t, "urgent", "n0")
			const words = `running PreBind plugin "Work": preempted by Trier`
			eventually(t, "the condition", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return slices.ContainsFunc(c.conditions["low"], func(condition v1.PodCondition) bool {
					return condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse && condition.Reason == v1.PodReasonSchedulerError && condition.Message == words
				})
			})
			eventually(t, "the event", func() bool { return c.hasEvent("low Warning FailedScheduling Scheduling: " + words) })
			if got := j.all(); strings.Contains(got, "evict") || strings.Count(got, "-A") != 1 || strings.Count(got, `nominate low ""`) != 1 {
				t.Errorf("did %s", got)
			}
			c.deletePod("urgent")
			eventually(t, "it has its turn again", func() bool {
				c.clock.Step(time.Second)
				return c.node("low") == "n0"
			})
		})
	}
}

// A pod that is being bound, pre-bind behind it, is evicted.
func TestPreemptedBehindPreBind(t *testing.T) {
	var j, did journal
	var asked atomic.Int64
	release := make(chan struct{})
	work := sdk.PreBind{Name: "Work", PreBind: func(*sdk.Binding) sdk.Status { return sdk.Status{} }}
	binder := sdk.Bind{Name: "Binder", Bind: func(b *sdk.Binding) sdk.Status {
		if b.Pod.Name == "low" {
			did.note("binds")
			<-release
		}
		return sdk.Status{}
	}}
	c, _ := startCycle(t, 1, []any{work, binder, trier(&asked)}, evicting(&j))
	c.addPod(schedulertest.MakePod("low", 4000, priority(1)))
	eventually(t, "it is being bound", func() bool { return did.all() == "binds" })
	c.addPod(schedulertest.MakePod("urgent", 4000, priority(10)))
	eventually(t, "it is evicted", func() bool { return strings.Contains(j.all(), "evict low") })
	close(release)
	c.eventuallyBound(t, "urgent", "n0")
}

// The first who takes a place is named, and nobody takes it when it is too late.
func TestPreBindingYields(t *testing.T) {
	for _, tc := range []struct {
		name  string
		steps string // e: it ends; others: they take the place
		want  string // y or n for each that takes it
		by    string
	}{
		{"nobody", "e", "", ""},
		{"one", "ae", "y", "a"},
		{"two", "abe", "yy", "a"},
		{"too late", "ea", "n", ""},
		{"in time and too late", "aeb", "yn", "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			called := 0
			b := &preBinding{cancel: func() { called++ }}
			got, by := "", ""
			for _, step := range tc.steps {
				switch {
				case step == 'e':
					by = b.ends()
				case b.yields(string(step)):
					got += "y"
				default:
					got += "n"
				}
			}
			if got != tc.want || by != tc.by || called != min(strings.Count(tc.want, "y"), 1) {
				t.Errorf("%q by %q, called off %d times; want %q by %q", got, by, called, tc.want, tc.by)
			}
		})
	}
	if (*preBinding)(nil).yields("a") {
		t.Error("a pod without pre-bind plugins yields")
	}
}

// A pod that is being deleted, or is gone, while a pre-bind plugin works for it gives
// its room up at once, as by kube-scheduler 1.36. The plugin goes on; of a pod that is
// still there, what was reserved is taken back when that ends.
func TestDeletedInPreBind(t *testing.T) {
	for _, tc := range []struct {
		name   string
		delete func(c *cluster)
		early  bool // reserve plugins take back before the plugin ends
	}{
		{"its deletion begins", func(c *cluster) {
			c.changePod("low", func(p *v1.Pod) {
				p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1_700_000_000, 0)}, []string{"a/b"}
			})
		}, false},
		{"it is gone", func(c *cluster) { c.deletePod("low") }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var j, did journal
			release := make(chan struct{})
			work := sdk.PreBind{Name: "Work", PreBind: func(b *sdk.Binding) sdk.Status {
				if b.Pod.Name == "low" {
					did.note("works")
					select {
					case <-release:
					case <-b.Context.Done():
						did.note("called-off")
					}
				}
				return sdk.Status{}
			}}
			c, _ := startCycle(t, 1, []any{reserve(&j, "A"), work}, func(c *cluster) {
				c.refuse = func(name string) error {
					if name == "low" {
						return apierrors.NewConflict(v1.Resource("pods/binding"), name, errors.New("pod low is being deleted, cannot be assigned to a host"))
					}
					return nil
				}
			})
			c.addPod(schedulertest.MakePod("low", 4000))
			eventually(t, "the plugin works", func() bool { return did.all() == "works" })
			c.addPod(schedulertest.MakePod("next", 4000))
			c.eventuallyTried(t, "next", 1)
			tc.delete(c)
			eventually(t, "the next one has its room", func() (has bool) {
				c.clock.Step(time.Second)
				c.ask(t, func() { has = c.sched.pods["pod-next"].Node == "n0" })
				return has
			})
			if got := did.all(); got != "works" {
				t.Errorf("the plugin %s", got)
			}
			if got := j.all(); strings.Contains(got, "-A") != tc.early {
				t.Errorf("before the plugin ended: %s", got)
			}
			close(release)
			eventually(t, "what was reserved is taken back once", func() bool {
				c.clock.Step(time.Second)
				return strings.Count(j.all(), "-A") == 1
			})
			c.eventuallyBound(t, "next", "n0")
			c.ask(t, func() {
				if p := c.sched.pods["pod-low"]; p != nil && (p.forgone != "" || p.assumed || p.Node != "" || p.place != nowhere) {
					t.Errorf("it is left on %q, gave up %q, assumed %t, in place %v", p.Node, p.forgone, p.assumed, p.place)
				}
			})
		})
	}
}

// A binding that succeeds all the same counts.
func TestDeletedBehindItsBinding(t *testing.T) {
	var did journal
	release := make(chan struct{})
	work := sdk.PreBind{Name: "Work", PreBind: func(b *sdk.Binding) sdk.Status {
		if b.Pod.Name == "low" {
			did.note("works")
			<-release
		}
		return sdk.Status{}
	}}
	c, _ := startCycle(t, 1, []any{work})
	c.addPod(schedulertest.MakePod("low", 4000))
	eventually(t, "the plugin works", func() bool { return did.all() == "works" })
	c.changePod("low", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_700_000_000, 0)} })
	eventually(t, "it gave its room up", func() (gone bool) {
		c.ask(t, func() { gone = !c.sched.pods["pod-low"].assumed })
		return gone
	})
	close(release)
	eventually(t, "it is on its node", func() (on bool) {
		c.ask(t, func() { p := c.sched.pods["pod-low"]; on = p.Node == "n0" && p.forgone == "" })
		return on
	})
}
