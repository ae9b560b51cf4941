package tainteviction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/plugins/controllers/internal/testapi"
	"pintle.dev/pintle/sdk/controller"
)

var (
	unreachable = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
	broken      = corev1.Taint{Key: "broken", Value: "yes", Effect: corev1.TaintEffectNoExecute}
	soft        = corev1.Taint{Key: "soft", Effect: corev1.TaintEffectNoSchedule}
)

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints}}
}

// tolerates is a toleration of one taint; no seconds is for ever.
func tolerates(taint corev1.Taint, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpExists, Effect: taint.Effect}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func pod(name string, tolerations ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Generation: 3},
		Spec:       corev1.PodSpec{NodeName: "n", Tolerations: tolerations},
	}
}

// world is the controller in a bubble.
type world struct{ *testapi.Bubble }

func start(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	return &world{testapi.Start(t, New, objects...)}
}

// events are the messages, in order.
func (w *world) events() string {
	w.Helper()
	var list []string
	for _, e := range w.Evictions("TaintManagerEviction", "taint-eviction-controller") {
		list = append(list, e.Message)
	}
	return strings.Join(list, "; ")
}

func (w *world) node(taints ...corev1.Taint) {
	w.Helper()
	if _, err := w.Client.CoreV1().Nodes().Update(context.Background(), node("n", taints...), metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) pod(p *corev1.Pod) {
	w.Helper()
	if _, err := w.Client.CoreV1().Pods("ns").Update(context.Background(), p, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// NDC-10, NDC-14: what a pod tolerates says whether it stays and for how long.
func TestTolerations(t *testing.T) {
	for name, tc := range map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		stays       time.Duration // a second less than this it is there
		always      bool
	}{
		"no taint":                    {taints: []corev1.Taint{soft}, always: true},
		"no toleration":               {taints: []corev1.Taint{unreachable}},
		"of another taint":            {[]corev1.Toleration{tolerates(broken)}, []corev1.Taint{unreachable}, 0, false},
		"for ever":                    {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, []corev1.Taint{unreachable, broken}, 0, true},
		"for a time":                  {[]corev1.Toleration{tolerates(unreachable, 300)}, []corev1.Taint{unreachable}, 300 * time.Second, false},
		"the shortest counts":         {[]corev1.Toleration{tolerates(unreachable, 300), tolerates(broken, 20)}, []corev1.Taint{unreachable, broken}, 20 * time.Second, false},
		"the first of a taint counts": {[]corev1.Toleration{tolerates(unreachable, 60), tolerates(unreachable, 5)}, []corev1.Taint{unreachable}, 60 * time.Second, false},
		"one of two":                  {[]corev1.Toleration{tolerates(unreachable, 300)}, []corev1.Taint{unreachable, broken}, 0, false},
		"no time":                     {[]corev1.Toleration{tolerates(unreachable, 0)}, []corev1.Taint{unreachable}, 0, false},
		"less than none":              {[]corev1.Toleration{tolerates(unreachable, math.MinInt64)}, []corev1.Taint{unreachable}, 0, false},
		"more than can be counted":    {[]corev1.Toleration{tolerates(unreachable, math.MaxInt64/2)}, []corev1.Taint{unreachable}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, node("n", tc.taints...), pod("p", tc.tolerations...))
				switch {
				case tc.always:
					w.After(1000 * time.Hour).Want("p")
					if e := w.events(); e != "" {
						t.Errorf("events %q", e)
					}
				default:
					if tc.stays > 0 {
						w.After(tc.stays - time.Second).Want("p")
						w.After(time.Second).Want()
					} else {
						w.After(0).Want()
					}
					if e := w.events(); e != "Marking for deletion Pod ns/p" {
						t.Errorf("events %q", e)
					}
					want := `{"metadata":{"uid":"uid-p"},"status":{"conditions":[{"type":"DisruptionTarget","observedGeneration":3,"status":"True","lastProbeTime":null,` +
						`"lastTransitionTime":"` + time.Now().UTC().Format(time.RFC3339) + `","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}]}}`
					if marked := w.Marked(); len(marked) != 1 || marked[0] != want {
						t.Errorf("patches %s\nwant %s", marked, want)
					}
				}
			})
		})
	}
}

// What changes while a deletion is planned.
func TestPlans(t *testing.T) {
	const cancelled, marked = "Cancelling deletion of Pod ns/p", "Marking for deletion Pod ns/p"
	planned := func() *corev1.Pod { return pod("p", tolerates(unreachable, 300), tolerates(broken, 10)) }
	for name, tc := range map[string]struct {
		change func(w *world) // after 100 of 300 seconds
		then   time.Duration  // how long after that the pod is there; 0: it goes at once; negative: it stays
		events string
	}{
		"the taint goes":               {func(w *world) { w.node() }, -1, cancelled},
		"only a soft one is left":      {func(w *world) { w.node(soft) }, -1, cancelled},
		"a taint that is not borne":    {func(w *world) { w.node(unreachable, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute}) }, 0, cancelled + "; " + marked},
		"a taint that is borne less":   {func(w *world) { w.node(unreachable, broken) }, 200 * time.Second, marked},
		"the toleration goes":          {func(w *world) { w.pod(pod("p")) }, 0, cancelled + "; " + marked},
		"the toleration gets longer":   {func(w *world) { w.pod(pod("p", tolerates(unreachable, 900))) }, 200 * time.Second, marked},
		"the toleration has no end":    {func(w *world) { w.pod(pod("p", tolerates(unreachable))) }, -1, cancelled},
		"the node goes":                {func(w *world) { w.delete(w.Client.CoreV1().Nodes().Delete, "n") }, 200 * time.Second, marked},
		"the pod says something else":  {func(w *world) { p := planned(); p.Labels = map[string]string{"a": "b"}; w.pod(p) }, 200 * time.Second, marked},
		"the taint goes and comes":     {func(w *world) { w.node(); w.node(unreachable) }, 300 * time.Second, cancelled + "; " + marked},
		"another pod takes the place":  {func(w *world) { w.replace(planned()) }, 300 * time.Second, cancelled + "; " + marked},
		"the same taint with a reason": {func(w *world) { u := unreachable; u.Value = "cable"; w.node(u) }, 200 * time.Second, marked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, node("n", unreachable), planned())
				w.After(100 * time.Second).Want("p")
				tc.change(w)
				switch {
				case tc.then < 0:
					w.After(100 * time.Hour).Want("p")
				case tc.then > 0:
					w.After(tc.then - time.Second).Want("p")
					w.After(2 * time.Second).Want()
				default:
					w.After(0).Want()
				}
				if e := w.events(); e != tc.events {
					t.Errorf("events %q, want %q", e, tc.events)
				}
			})
		})
	}
}

func (w *world) delete(f func(context.Context, string, metav1.DeleteOptions) error, name string) {
	w.Helper()
	if err := f(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// replace puts another pod of the same name in the place of p, as a StatefulSet does.
func (w *world) replace(p *corev1.Pod) {
	w.Helper()
	if err := w.Client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "ns", p.Name); err != nil {
		w.Fatal(err)
	}
	p.UID = "another"
	if err := w.Client.Tracker().Add(p); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// A pod is told about once, however often the API refuses, and is not forgotten. The
// calls grow rarer.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		var refusing atomic.Bool
		var calls atomic.Int64
		refusing.Store(true)
		w.Client.PrependReactor("delete", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
			calls.Add(1)
			if refusing.Load() {
				return true, nil, apierrors.NewInternalError(errors.New("a webhook is down"))
			}
			return false, nil, nil
		})
		for _, o := range []runtime.Object{node("n", unreachable), pod("p")} {
			if err := w.Client.Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
		w.After(10 * time.Minute).Want("p")
		if n := calls.Load(); n < 6 || n > 30 {
			t.Errorf("%d calls in ten minutes", n)
		}
		if e := w.events(); e != "Marking for deletion Pod ns/p" {
			t.Errorf("events %q", e)
		}
		refusing.Store(false)
		w.After(20 * time.Minute).Want()
		if e := w.events(); e != "Marking for deletion Pod ns/p" {
			t.Errorf("events %q", e)
		}
	})
	// One that is marked and then spared is let be, and that is no cancelled plan.
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.Client.PrependReactor("delete", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("no"))
		})
		for _, o := range []runtime.Object{node("n", unreachable), pod("p")} {
			if err := w.Client.Tracker().Add(o); err != nil {
				t.Fatal(err)
			}
		}
		w.After(time.Second)
		w.node()
		w.After(time.Hour).Want("p")
		if e := w.events(); e != "Marking for deletion Pod ns/p" {
			t.Errorf("events %q", e)
		}
	})
}

// The 10,000 pods of a node that died go by name, or when their time is over. Those of the node beside it stay.
func TestManyPods(t *testing.T) {
	const many = 10000
	for name, tolerations := range map[string][]corev1.Toleration{"at once": nil, "after a while": {tolerates(unreachable, 300)}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// An API that answers each write and keeps nothing.
				client := &fake.Clientset{}
				var mu sync.Mutex
				var order []string
				deleted := func() []string {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(order)
				}
				client.AddReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
					mu.Lock()
					defer mu.Unlock()
					if d, ok := a.(k8stesting.DeleteAction); ok {
						order = append(order, d.GetName())
					}
					return true, &corev1.Pod{}, nil
				})
				shared := informers.NewSharedInformerFactory(client, 0)
				runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: shared})
				if err != nil {
					t.Fatal(err)
				}
				e := runner.(*evictor)
				e.Recorder = record.NewFakeRecorder(2 * many)
				beside := pod("beside")
				beside.Spec.NodeName = "m"
				pods := []*corev1.Pod{beside}
				for i := range many {
					pods = append(pods, pod(fmt.Sprintf("p-%05d", i), tolerations...))
				}
				for _, p := range pods {
					if err := e.pods.Add(p); err != nil {
						t.Fatal(err)
					}
				}
				for _, n := range []*corev1.Node{node("n", unreachable), node("m")} {
					if err := shared.Core().V1().Nodes().Informer().GetStore().Add(n); err != nil {
						t.Fatal(err)
					}
				}
				e.nodeChanged(node("n"), node("n", unreachable))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); e.Loop.Run(ctx) }()
				if len(tolerations) > 0 {
					time.Sleep(299 * time.Second)
					synctest.Wait()
					if n := len(deleted()); n != 0 {
						t.Fatalf("%d pods are gone too early", n)
					}
					time.Sleep(time.Second)
				}
				synctest.Wait()
				cancel()
				<-done
				if len(order) != many || slices.Contains(order, "beside") {
					t.Fatalf("%d deletions, want the %d of the node", len(order), many)
				}
				if len(e.plans) != 0 {
					t.Errorf("%d plans are left", len(e.plans))
				}
				if len(tolerations) > 0 {
					return // their deadlines are the same instant here
				}
				// A worker that the machine holds up lets the others pass by one place each.
				inPlace := 0
				for i, name := range order {
					var number int
					if _, err := fmt.Sscanf(name, "p-%05d", &number); err != nil {
						t.Fatal(err)
					}
					if d := number - i; d < workers && d > -workers {
						inPlace++
					}
				}
				if inPlace < many/2 {
					t.Errorf("%d of %d pods go in the order of their names", inPlace, many)
				}
			})
		})
	}
}

// A pod of a healthy node is no work.
func TestIdle(t *testing.T) {
	runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: fake.NewClientset(), Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)})
	if err != nil {
		t.Fatal(err)
	}
	e := runner.(*evictor)
	defer e.Close()
	p := pod("p")
	e.podChanged(nil, p)
	e.podChanged(p, p)
	e.podChanged(p, nil)
	e.nodeChanged(nil, node("n", soft))
	e.nodeChanged(node("n"), node("n", soft))
	if n := e.Len(); n != 0 {
		t.Errorf("%d keys", n)
	}
	// The condition that stands keeps its time, and is not written again.
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
		Message: "Taint manager: deleting due to NoExecute taint", ObservedGeneration: 3, LastTransitionTime: metav1.Unix(7, 0),
	}}
	if patch, err := e.reason(p); patch != nil || err != nil {
		t.Errorf("%s, %v", patch, err)
	}
	p.Generation = 4
	if patch, err := e.reason(p); err != nil || !strings.Contains(string(patch), `"lastTransitionTime":"1970-01-01T00:00:07Z"`) {
		t.Errorf("%s, %v", patch, err)
	}
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]bool{"": true, " {}\n": true, `{"workers":2}`: false, "null": false, "[]": false} {
		_, err := New(&controller.Context{
			Config: []byte(config), Logger: slog.New(slog.DiscardHandler), Client: fake.NewClientset(),
			Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
		})
		if (err == nil) != want {
			t.Errorf("%q: %v", config, err)
		}
	}
}
