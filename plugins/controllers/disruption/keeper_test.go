package disruption

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// kept is a keeper whose caches hold the given budgets and pods.
func kept(t *testing.T, objects ...runtime.Object) (*keeper, *fake.Clientset, *clocktesting.FakeClock, *record.FakeRecorder) {
	t.Helper()
	client := fake.NewClientset(objects...)
	shared := informers.NewSharedInformerFactory(client, 0)
	k := build(client, shared, nil, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { k.Close(); k.marks.Close() })
	clock, events := clocktesting.NewFakeClock(time.Unix(10_000, 0)), record.NewFakeRecorder(10)
	k.clock, k.Recorder = clock, events
	for _, o := range objects {
		indexer := shared.Core().V1().Pods().Informer().GetIndexer()
		if _, ok := o.(*policyv1.PodDisruptionBudget); ok {
			indexer = shared.Policy().V1().PodDisruptionBudgets().Informer().GetIndexer()
		}
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return k, client, clock, events
}

// A pod that is marked for a disruption and runs on loses the mark after two
// minutes, not before; one that is deleted or ended keeps it.
func TestStaleMark(t *testing.T) {
	marked := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Generation: 4},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", LastTransitionTime: metav1.NewTime(time.Unix(10_000, 0))},
			}},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		goes   bool
	}{
		"runs on":    {nil, true},
		"is deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()); p.Finalizers = []string{"x"} }, false},
		"has ended":  {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"by kubelet": {func(p *corev1.Pod) { p.Status.Conditions[1].Reason = corev1.PodReasonTerminationByKubelet }, false},
	} {
		t.Run(name, func(t *testing.T) {
			k, client, clock, _ := kept(t, marked(tt.change))
			mark := func() corev1.PodCondition {
				t.Helper()
				p, err := client.CoreV1().Pods("default").Get(t.Context(), "p", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return p.Status.Conditions[1]
			}
			clock.Step(time.Minute)
			after, ok := k.unmark(t.Context(), "default/p").(*queue.After)
			if ok != tt.goes || ok && after.Delay != time.Minute || mark().Status != corev1.ConditionTrue {
				t.Fatalf("after one minute: %+v, mark %+v", after, mark())
			}
			clock.Step(time.Minute)
			if err := k.unmark(t.Context(), "default/p"); err != nil {
				t.Fatal(err)
			}
			if m := mark(); (m.Status == corev1.ConditionFalse) != tt.goes || tt.goes && (m.Reason != "" || m.ObservedGeneration != 4) {
				t.Errorf("after two: %+v", m)
			}
		})
	}
}

// While it cannot be told how many pods are wanted none may be evicted, and the
// condition says why.
func TestFailSafe(t *testing.T) {
	pdb := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromString("many")), Selector: &metav1.LabelSelector{}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 3},
	}
	k, client, _, events := kept(t, pdb)
	if err := k.sync(t.Context(), "default/b"); err == nil || !strings.Contains(err.Error(), "the pods are not evicted") {
		t.Fatalf("error %v", err)
	}
	got, err := client.PolicyV1().PodDisruptionBudgets("default").Get(t.Context(), "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := meta.FindStatusCondition(got.Status.Conditions, policyv1.DisruptionAllowedCondition)
	if got.Status.DisruptionsAllowed != 0 || c == nil || c.Status != metav1.ConditionFalse || c.Reason != policyv1.SyncFailedReason {
		t.Errorf("status %+v", got.Status)
	}
	if first, second := <-events.Events, <-events.Events; first != "Normal NoPods No matching pods found" || !strings.HasPrefix(second, "Warning CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: ") {
		t.Errorf("told %q and %q", first, second)
	}
}

// A pod of several budgets is told of, and one that is labelled anew concerns
// the budget that it belonged to as well.
func TestPodChanged(t *testing.T) {
	budget := func(name, app string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		}
	}
	pod := func(app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": app}}}
	}
	k, _, _, events := kept(t, budget("a", "web"), budget("b", "store"), budget("c", "store"))
	keys := make(chan string, 10)
	k.Loop = queue.New(slog.New(slog.DiscardHandler), func(_ context.Context, key string) error { keys <- key; return nil }, queue.Options[string]{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Loop.Run(ctx) }()
	defer func() { cancel(); <-done }()
	queued := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case key := <-keys:
				got = append(got, key)
			case <-time.After(2 * time.Minute):
				t.Fatalf("queued %q in time, want %q", got, want)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("queued %q, want %q", got, want)
		}
	}
	k.podChanged(pod("web"), pod("web"))
	queued("default/a")
	if len(events.Events) != 0 {
		t.Errorf("of one budget: told %q", <-events.Events)
	}
	k.podChanged(pod("web"), pod("store"))
	queued("default/a", "default/b", "default/c")
	if len(events.Events) != 1 {
		t.Fatalf("of two budgets: %d events", len(events.Events))
	}
	if e := <-events.Events; !strings.HasPrefix(e, `Warning MultiplePodDisruptionBudgets Pod "default"/"p" matches multiple PodDisruptionBudgets.  Chose "`) {
		t.Errorf("told %q", e)
	}
}
