package scheduler

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// still is a scheduler that does not run: a test does what its cycle would, step by
// step.
func still(t *testing.T) *Scheduler {
	t.Helper()
	a := newAPI(t)
	s, err := New(Config{}, Deps{
		Pods: a.pods, Nodes: a.nodes, Bind: a.bind, Clock: clocktesting.NewFakeClock(t0), Events: a,
		Profiles: map[string]PolicySource{schedulertest.ProfileName: newTestSource(nil)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sees hands a state of a pod to the scheduler, as its sources do.
func (s *Scheduler) sees(t *testing.T, p *v1.Pod, now time.Time) *podEntry {
	t.Helper()
	sh, err := newShape(p)
	if err != nil {
		t.Fatal(err)
	}
	s.setPod(p, sh, now)
	return s.pods[p.UID]
}

// waitsFor is the failure of a pod whose plugin declared changes of the pod itself.
func waitsFor(actions contractv1.Action) *framework.Failure {
	return framework.NewFailure([]framework.Rejector{{Name: "Waits", Interests: []*contractv1.Interest{{Kind: contractv1.KindPod, Actions: uint32(actions)}}}})
}

// SCH-1: what a change of a pod does depends on where it waits: its turn stays its
// turn, back-off goes on, and it leaves the pool only for what those who refused it
// wait for. The cases are those of kube-scheduler's own queue.
func TestUpdatesInEachPlace(t *testing.T) {
	cpu := func(milli int64) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}
		}
	}
	tolerates := func(p *v1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "k", Operator: v1.TolerationOpExists})
	}
	ungated := func(p *v1.Pod) { p.Spec.SchedulingGates = nil }
	leaving := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: t0} }
	gate := func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }
	told := func(p *v1.Pod) {
		p.Generation-- // a status has none
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable}}
	}
	nominated := func(p *v1.Pod) { p.Generation--; p.Status.NominatedNodeName = "n0" }
	const (
		labels   = contractv1.Action_UPDATE_POD_LABEL
		scale    = contractv1.Action_UPDATE_POD_SCALE_DOWN
		tolerate = contractv1.Action_UPDATE_POD_TOLERATION
		gates    = contractv1.Action_UPDATE_POD_SCHEDULING_GATES_ELIMINATED
	)
	after := 20 * time.Second // any back-off is over
	for _, tc := range []struct {
		name    string
		in      place
		failed  *framework.Failure
		change  func(*v1.Pod)
		elapsed time.Duration
		want    place
	}{
		{"active, label", active, nil, label("a", "b"), 0, active},
		{"active, request", active, nil, cpu(7), 0, active},
		{"active, priority", active, nil, priority(9), 0, active},
		{"active, status", active, nil, told, 0, active},
		{"active, nomination", active, nil, nominated, 0, active},
		{"active, it goes", active, nil, leaving, 0, active},
		{"backing off, label", backingOff, waitsFor(labels), label("a", "b"), 0, backingOff},
		{"backing off, request", backingOff, waitsFor(scale), cpu(1), 0, backingOff},
		{"backing off, nomination", backingOff, nobody, nominated, 0, backingOff},
		{"refused, label that helps", unschedulable, waitsFor(labels), label("a", "b"), after, active},
		{"refused, label that helps, during back-off", unschedulable, waitsFor(labels), label("a", "b"), 0, backingOff},
		{"refused, label of no use", unschedulable, waitsFor(scale), label("a", "b"), after, unschedulable},
		{"refused, annotation", unschedulable, waitsFor(labels), func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, after, unschedulable},
		{"refused, less is asked", unschedulable, waitsFor(scale), cpu(1), after, active},
		{"refused, more is asked", unschedulable, waitsFor(scale), cpu(500), after, unschedulable},
		{"refused, toleration", unschedulable, waitsFor(tolerate), tolerates, after, active},
		{"refused, toleration of no use", unschedulable, waitsFor(labels), tolerates, after, unschedulable},
		{"refused, status", unschedulable, waitsFor(contractv1.Action_UPDATE), told, after, unschedulable},
		{"refused, nomination", unschedulable, waitsFor(labels), nominated, after, unschedulable},
		{"refused, it goes", unschedulable, waitsFor(contractv1.Action_UPDATE), leaving, after, nowhere},
		{"refused by nobody who waits for the pod itself", unschedulable, byOther, cpu(1), after, unschedulable},
		{"gated, gates are gone", gated, waitsFor(gates), ungated, 0, active},
		{"gated, label", gated, waitsFor(gates), label("a", "b"), 0, gated},
		{"gated, toleration", gated, waitsFor(gates), tolerates, 0, gated},
		{"gated, it goes", gated, waitsFor(gates), leaving, 0, nowhere},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := still(t)
			change := []func(*v1.Pod){}
			if tc.in == gated {
				change = append(change, gate)
			}
			pod := schedulertest.MakePod("p", 100, change...)
			p := s.sees(t, pod, t0)
			switch tc.in {
			case gated:
				s.queue.remove(p)
				s.queue.gate(p, tc.failed)
			case unschedulable, backingOff:
				s.queue.pop(t0)
				s.queue.park(p, tc.failed, t0)
				if tc.in == backingOff {
					s.queue.everything(eventForced, t0)
				}
			}
			if p.place != tc.in {
				t.Fatalf("it waits in place %d, want %d", p.place, tc.in)
			}
			stamp, ready, tries := p.stamp, p.ready, p.attempts
			next := pod.DeepCopy()
			next.Generation++
			tc.change(next)
			s.sees(t, next, t0.Add(tc.elapsed))
			if p.place != tc.want {
				t.Errorf("it waits in place %d, want %d", p.place, tc.want)
			}
			if p.stamp != stamp || tc.in == tc.want && p.ready != ready || p.attempts != tries {
				t.Errorf("stamp %v, ready %v, %d attempts; want %v, %v, %d", p.stamp, p.ready, p.attempts, stamp, ready, tries)
			}
			if p.Object != next {
				t.Error("the state before is tried")
			}
			if want := next.Status.NominatedNodeName; p.nominated != want || (len(s.snapshot.Nominees[want]) == 1) != (want != "") {
				t.Errorf("nominated to %q: %v, want %q", p.nominated, s.snapshot.Nominees, want)
			}
			if inPool := tc.want == unschedulable || tc.want == gated; (s.queue.pool[p.UID] != nil) != inPool || (len(s.queue.groups) == 1) != inPool {
				t.Errorf("%d in the pool, %d groups", len(s.queue.pool), len(s.queue.groups))
			}
			again := s.sees(t, next, t0.Add(tc.elapsed))
			if again != p || p.place != tc.want {
				t.Errorf("seen once more it waits in place %d", p.place)
			}
		})
	}
}

// A change of priority, and of nothing else, moves a pod within its queue.
func TestUpdatesKeepTheirTurn(t *testing.T) {
	s := still(t)
	for i, name := range []string{"first", "second", "third"} {
		s.sees(t, schedulertest.MakePod(name, 1), t0.Add(time.Duration(i)*time.Second))
	}
	later := t0.Add(time.Minute)
	for _, c := range []struct {
		pod    types.UID
		change func(*v1.Pod)
	}{{"pod-first", label("a", "b")}, {"pod-first", priority(0)}, {"pod-third", priority(5)}} {
		next := s.pods[c.pod].Object.DeepCopy()
		next.Generation++
		c.change(next)
		s.sees(t, next, later)
	}
	for _, want := range []string{"third", "first", "second"} {
		if p := s.queue.pop(later); p == nil || p.Name != want {
			t.Fatalf("got %s, want %s", name(p), want)
		}
	}
}

// The nomination that a status tells of is taken over, moved and ended, wherever the
// pod waits; what the scheduler nominated itself stands until then.
func TestUpdatesOfNominations(t *testing.T) {
	s := still(t)
	pod := schedulertest.MakePod("p", 1)
	p := s.sees(t, pod, t0)
	s.nominated(p, "own")
	for _, step := range []struct{ status, want string }{{"", "own"}, {"a", "a"}, {"b", "b"}, {"b", "b"}, {"", ""}, {"", ""}} {
		pod = pod.DeepCopy()
		pod.Status.NominatedNodeName = step.status
		s.sees(t, pod, t0)
		if p.nominated != step.want {
			t.Errorf("status %q: nominated to %q, want %q", step.status, p.nominated, step.want)
		}
		kept := 0
		for _, list := range s.snapshot.Nominees {
			kept += len(list)
		}
		if want := min(len(step.want), 1); kept != want {
			t.Errorf("status %q: room is kept %d times", step.status, kept)
		}
	}
	s.nominated(p, "c")
	s.removePod(p.UID)
	if len(s.snapshot.Nominees) != 0 {
		t.Errorf("room is kept for a pod that is gone: %v", s.snapshot.Nominees)
	}
}

// A pod that is bound, by whomever, leaves the queue wherever it waits.
func TestBoundElsewhereLeavesTheQueue(t *testing.T) {
	for _, in := range []place{active, backingOff, unschedulable, gated} {
		s := still(t)
		pod := schedulertest.MakePod("p", 1)
		p := s.sees(t, pod, t0)
		switch in {
		case gated:
			s.queue.remove(p)
			s.queue.gate(p, nobody)
		case unschedulable, backingOff:
			s.queue.pop(t0)
			if s.queue.park(p, nobody, t0); in == backingOff {
				s.queue.everything(eventForced, t0)
			}
		}
		next := pod.DeepCopy()
		next.Spec.NodeName = "n0"
		if s.sees(t, next, t0); p.place != nowhere || s.queue.active.Len()+s.queue.backoff.Len()+len(s.queue.pool)+len(s.queue.groups) != 0 {
			t.Errorf("from place %d: it waits in place %d", in, p.place)
		}
		if s.snapshot.ByName["n0"] == nil || s.snapshot.ByName["n0"].Pods[types.UID("pod-p")] != &p.Pod {
			t.Errorf("from place %d: it is not on its node", in)
		}
	}
}
