package replicaset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
)

var webLabels = map[string]string{"app": "web"}

func set(replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "owner"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: webLabels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: webLabels}},
		},
	}
}

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: webLabels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set(0), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if change != nil {
		change(p)
	}
	return p
}

// fixture is a controller over caches that hold the given objects; nothing
// runs but what a test calls.
func fixture(t *testing.T, objects ...runtime.Object) (*replicator, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	var names atomic.Int64
	client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		p := a.(k8stesting.CreateAction).GetObject().(*corev1.Pod)
		p.Name = fmt.Sprintf("%s%d", p.GenerateName, names.Add(1))
		return false, nil, nil
	})
	shared := informers.NewSharedInformerFactory(client, 0)
	r, err := build(client, shared, replicaSets(client, shared), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	r.Recorder = record.NewFakeRecorder(1000)
	for _, o := range objects {
		indexer := r.pods
		if _, ok := o.(*appsv1.ReplicaSet); ok {
			indexer = r.informer.GetIndexer()
		}
		if err := indexer.Add(o); err != nil {
			t.Fatal(err)
		}
	}
	return r, client
}

func count(client *fake.Clientset, verb, resource string) (n int) {
	for _, a := range client.Actions() {
		if a.Matches(verb, resource) && a.GetSubresource() == "" {
			n++
		}
	}
	return n
}

// RCC-1, RCC-14, RCC-16 to RCC-20, ODD-32.
func TestSyncMakesAndDeletesPods(t *testing.T) {
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }
	orphan := func(p *corev1.Pod) { p.OwnerReferences = nil }
	strange := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }
	tests := []struct {
		name            string
		replicas        int32
		pods            []*corev1.Pod
		create, del     int
		patch, replicaN int
	}{
		{"too few", 3, []*corev1.Pod{pod("a", nil)}, 2, 0, 0, 1},
		{"too many", 1, []*corev1.Pod{pod("a", nil), pod("b", nil), pod("c", nil)}, 0, 2, 0, 3},
		{"enough", 1, []*corev1.Pod{pod("a", nil)}, 0, 0, 0, 1},
		{"finished and leaving do not count", 1, []*corev1.Pod{pod("a", finished), pod("b", leaving)}, 1, 0, 0, 0},
		{"an orphan is adopted", 1, []*corev1.Pod{pod("a", orphan)}, 0, 0, 1, 1},
		{"bare pods are adopted and the missing one is made (RS-1, T-5)", 3, []*corev1.Pod{pod("a", orphan), pod("b", orphan)}, 1, 0, 2, 2},
		{"of bare pods too many are deleted (RS-1, T-5)", 1, []*corev1.Pod{pod("a", nil), pod("b", orphan)}, 0, 1, 1, 2},
		{"one that no longer matches is released and replaced (RS-3)", 1, []*corev1.Pod{pod("a", strange)}, 1, 0, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []runtime.Object{set(tt.replicas)}
			for _, p := range tt.pods {
				objects = append(objects, p)
			}
			r, client := fixture(t, objects...)
			if err := r.sync(t.Context(), "default/web"); err != nil {
				t.Fatal(err)
			}
			if c, d, p := count(client, "create", "pods"), count(client, "delete", "pods"), count(client, "patch", "pods"); c != tt.create || d != tt.del || p != tt.patch {
				t.Errorf("created %d, deleted %d, patched %d; want %d, %d, %d", c, d, p, tt.create, tt.del, tt.patch)
			}
			got, err := client.AppsV1().ReplicaSets("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if int(got.Status.Replicas) != tt.replicaN { // RCC-21
				t.Errorf("status.replicas %d, want %d", got.Status.Replicas, tt.replicaN)
			}
		})
	}
}

// RCC-13, RCC-15: open expectations hold pods back and not the status.
// RCC-8, RCC-9: seen creations meet them.
func TestExpectationsGateSync(t *testing.T) {
	r, client := fixture(t, set(2), pod("seen", nil))
	for range 3 {
		if err := r.sync(t.Context(), "default/web"); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(client, "create", "pods"); n != 1 {
		t.Fatalf("created %d pods before the first was seen, want 1", n)
	}
	if got, _ := client.AppsV1().ReplicaSets("default").Get(t.Context(), "web", metav1.GetOptions{}); got.Status.Replicas != 1 {
		t.Errorf("status was not written: %+v", got.Status)
	}
	r.podAdded(pod("new", nil)) // its event, though the cache lost it
	if err := r.sync(t.Context(), "default/web"); err != nil {
		t.Fatal(err)
	}
	if n := count(client, "create", "pods"); n != 2 {
		t.Errorf("created %d pods after the first was seen, want 2", n)
	}
}

// RCC-19.
func TestBurst(t *testing.T) {
	r, client := fixture(t, set(burst+100))
	if err := r.sync(t.Context(), "default/web"); err != nil {
		t.Fatal(err)
	}
	if n := count(client, "create", "pods"); n != burst {
		t.Errorf("one sync created %d pods, want %d", n, burst)
	}
}

// ODD-15: a creation that failed, or was not tried, is not expected; the
// failure is a condition.
func TestFailedCreation(t *testing.T) {
	r, client := fixture(t, set(10))
	client.PrependReactor("create", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no quota")
	})
	if err := r.sync(t.Context(), "default/web"); err == nil {
		t.Fatal("no error, so no other try")
	}
	if n := count(client, "create", "pods"); n != 1 {
		t.Errorf("%d creations after the first failed, want 1", n)
	}
	if !r.expect.satisfied("default/web") {
		t.Error("pods that will not come are expected")
	}
	got, _ := client.AppsV1().ReplicaSets("default").Get(t.Context(), "web", metav1.GetOptions{})
	if len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Reason != "FailedCreate" || got.Status.Conditions[0].Message != "no quota" {
		t.Errorf("conditions %+v", got.Status.Conditions)
	}
}

// [17.18], S-5: what a quota refuses is told by an event, in upstream's words;
// a namespace that ends is asked once and nothing is told.
func TestRefusedCreation(t *testing.T) {
	pods := corev1.Resource("pods")
	quota := apierrors.NewForbidden(pods, "web-", errors.New("exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=2"))
	ending := apierrors.NewForbidden(pods, "web-", errors.New("unable to create new content in namespace default because it is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		err       error
		event     string
		condition bool
		expected  bool // the rest is held back
	}{
		"quota":               {quota, `Warning FailedCreate Error creating: pods "web-" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=2`, true, false},
		"namespace that ends": {ending, "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, client := fixture(t, set(10))
			events := record.NewFakeRecorder(10)
			r.Recorder = events
			client.PrependReactor("create", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			err := r.sync(t.Context(), "default/web")
			if tt.condition != apierrors.IsForbidden(err) {
				t.Errorf("sync: %v", err)
			}
			if n := count(client, "create", "pods"); n != 1 {
				t.Errorf("%d creations", n)
			}
			var told string
			if len(events.Events) > 0 {
				told = <-events.Events
			}
			if told != tt.event {
				t.Errorf("told %q, want %q", told, tt.event)
			}
			got, err := client.AppsV1().ReplicaSets("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || tt.condition != (len(got.Status.Conditions) == 1) {
				t.Errorf("conditions %v, %v", got.Status.Conditions, err)
			}
			if r.expect.satisfied("default/web") == tt.expected {
				t.Errorf("held back: %v", !tt.expected)
			}
		})
	}
}

// RCC-4: the deletion mark counts as the deletion, and once.
func TestDeletionMarkIsDeletion(t *testing.T) {
	p := pod("a", nil)
	r, _ := fixture(t, set(0), p)
	r.expect.expectDeletions("default/web", []string{podKey(p)})
	marked := p.DeepCopy()
	marked.DeletionTimestamp, marked.ResourceVersion = ptr.To(metav1.Now()), "2"
	r.podUpdated(p, marked)
	if !r.expect.satisfied("default/web") {
		t.Error("the mark did not meet the expectation")
	}
	r.expect.expectDeletions("default/web", []string{"default/b/b"})
	r.podDeleted(marked)
	if r.expect.satisfied("default/web") {
		t.Error("the removal counted for another pod")
	}
}

// FIL-10, RCC-10.
func TestExpectationsExpire(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	e := newExpectations(clock)
	e.expectCreations("a", 1)
	clock.Step(expectationTTL)
	if e.satisfied("a") {
		t.Error("satisfied at the limit")
	}
	clock.Step(time.Second)
	if !e.satisfied("a") {
		t.Error("held back for longer than the limit")
	}
	e.expectCreations("a", 1)
	e.created("a")
	e.created("a") // RCC-9: below zero is met as well
	if !e.satisfied("a") || !e.satisfied("unknown") {
		t.Error("met expectations hold back")
	}
}

// RCC-22.
func TestRanking(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }
	ready := func(p *corev1.Pod) {
		p.Spec.NodeName = "n1"
		p.CreationTimestamp = at(time.Hour)
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(time.Hour)}}
	}
	also := func(changes ...func(*corev1.Pod)) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for _, c := range changes {
				c(p)
			}
		}
	}
	want := []*corev1.Pod{
		pod("unassigned", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		pod("pending", also(ready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })),
		pod("unknown", also(ready, func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown })),
		pod("unready", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }),
		pod("cheap", also(ready, func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "-5"} })),
		pod("doubled", also(ready, func(p *corev1.Pod) { p.Spec.NodeName = "n2" })),
		pod("young", also(ready, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = at(time.Minute) })),
		pod("restarted", also(ready, func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3}} })),
		pod("steady", ready),
	}
	related := []*corev1.Pod{pod("x", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })}
	shuffled := slices.Clone(want)
	slices.Reverse(shuffled)
	for n := 1; n < len(want); n++ {
		got := toDelete(shuffled, related, n, now)
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("of %d the %d. is %s, want %s", n, i, got[i].Name, want[i].Name)
			}
		}
	}
}

func TestSlowStart(t *testing.T) {
	for _, tt := range []struct{ n, failAfter, calls, done int }{
		{10, 100, 10, 10}, {10, 0, 1, 0}, {10, 1, 3, 1}, {10, 5, 7, 5}, {0, 0, 0, 0},
	} {
		var calls atomic.Int64
		done, err := slowStart(tt.n, func() error {
			if calls.Add(1) > int64(tt.failAfter) {
				return errors.New("no")
			}
			return nil
		})
		if int(calls.Load()) != tt.calls || done != tt.done || (err != nil) != (tt.done < tt.n) {
			t.Errorf("%+v: %d calls, %d done, %v", tt, calls.Load(), done, err)
		}
	}
}

// A pod is available once it has been ready for minReadySeconds.
func TestAvailability(t *testing.T) {
	now := time.Unix(1_000, 0)
	p := pod("a", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Second))}}
	})
	for seconds, want := range map[int32]time.Duration{0: 0, 4: 0, 10: 6 * time.Second} {
		if left, ready := untilAvailable(p, seconds, now); !ready || left != want {
			t.Errorf("minReadySeconds %d: %v %v, want %v", seconds, left, ready, want)
		}
	}
	if got := nextLook([]*corev1.Pod{p}, 10, now); got != 6*time.Second {
		t.Errorf("next look after %v, want 6s", got)
	}
}

// A ReplicationController goes through the adapter and back whole.
func TestReplicationControllerAdapter(t *testing.T) {
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "rc", Namespace: "default"},
		Spec: corev1.ReplicationControllerSpec{
			Replicas: ptr.To[int32](3), MinReadySeconds: 2, Selector: webLabels,
			Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: webLabels}},
		},
		Status: corev1.ReplicationControllerStatus{
			Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: 3, AvailableReplicas: 4, ObservedGeneration: 5,
			Conditions: []corev1.ReplicationControllerCondition{{Type: corev1.ReplicationControllerReplicaFailure, Reason: "FailedCreate"}},
		},
	}
	back := asReplicationController(asReplicaSet(rc))
	if fmt.Sprintf("%#v", back.Status) != fmt.Sprintf("%#v", rc.Status) || *back.Spec.Replicas != 3 || back.Spec.Selector["app"] != "web" || back.Spec.MinReadySeconds != 2 {
		t.Errorf("%+v\nwant %+v", back, rc)
	}
}

// RCC-3, RCC-6: events alone bring the pods about; the end leaves nothing.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	client := fake.NewClientset(set(3))
	var names atomic.Int64
	client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		p := a.(k8stesting.CreateAction).GetObject().(*corev1.Pod)
		p.Name = fmt.Sprintf("web-%d", names.Add(1))
		p.UID = types.UID(p.Name)
		return false, nil, nil
	})
	shared := informers.NewSharedInformerFactory(client, 0)
	r, err := build(client, shared, replicaSets(client, shared), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	shared.Start(ctx.Done())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no three pods in time")
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	shared.Shutdown()
}

// The status of a large set is not written at each change of a pod, but in the
// end; pods are made and deleted without delay.
func TestPace(t *testing.T) {
	var objects []runtime.Object
	const n = 1000
	objects = append(objects, set(n))
	for i := range n {
		objects = append(objects, pod(fmt.Sprint("p", i), nil))
	}
	r, client := fixture(t, objects...)
	clock := clocktesting.NewFakeClock(time.Unix(1_000_000, 0))
	r.clock = clock
	client.PrependReactor("update", "replicasets", func(a k8stesting.Action) (bool, runtime.Object, error) {
		rs := a.(k8stesting.UpdateAction).GetObject().(*appsv1.ReplicaSet).DeepCopy()
		rs.ResourceVersion += "1"
		return true, rs, r.informer.GetIndexer().Update(rs)
	})
	writes := func() (n int) {
		for _, a := range client.Actions() {
			if a.Matches("update", "replicasets") {
				n++
			}
		}
		return n
	}
	ready := func(i int) {
		t.Helper()
		if err := r.pods.Update(pod(fmt.Sprint("p", i), func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		})); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sync(t.Context(), "default/web"); err != nil || writes() != 1 {
		t.Fatalf("%v, %d writes", err, writes())
	}
	for i := range 10 {
		ready(i)
		var after *queue.After
		if err := r.sync(t.Context(), "default/web"); !errors.As(err, &after) || after.Delay != paceLimit {
			t.Fatalf("change %d: %v", i, err)
		}
	}
	if writes() != 1 {
		t.Errorf("%d writes at once", writes())
	}
	if err := r.pods.Delete(pod("p0", nil)); err != nil {
		t.Fatal(err)
	}
	if err := r.sync(t.Context(), "default/web"); err != nil || count(client, "create", "pods") != 1 {
		t.Errorf("a lost pod waits: %v, %d made", err, count(client, "create", "pods"))
	}
	r.expect.forget("default/web")
	clock.Step(paceLimit)
	ready(0)
	if err := r.sync(t.Context(), "default/web"); err != nil {
		t.Fatal(err)
	}
	if rs, err := r.lookup("default/web"); err != nil || rs.Status.Replicas != n || rs.Status.ReadyReplicas != 10 {
		t.Errorf("in the end: %+v, %v", rs.Status, err)
	}
}

// TestRestOfLargeSet: while the status of a set rests, only what may change which pods it has
// is looked at before; the rest is looked at once, afterwards.
func TestRestOfLargeSet(t *testing.T) {
	otherOwner := *metav1.NewControllerRef(set(0), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
	otherOwner.UID = "another"
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(p *corev1.Pod)
		rested bool
		atOnce int
	}{
		"status":                     {func(p *corev1.Pod) { p.Status.Message = "m" }, false, 0},
		"status of a set at work":    {func(p *corev1.Pod) { p.Status.Message = "m" }, true, 1},
		"end":                        {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false, 1},
		"labels":                     {func(p *corev1.Pod) { p.Labels = map[string]string{"app": "other"} }, false, 1},
		"deletion":                   {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, false, 1},
		"owner":                      {func(p *corev1.Pod) { p.OwnerReferences[0] = otherOwner }, false, 1},
		"owner that it did not have": {func(p *corev1.Pod) { p.OwnerReferences = nil }, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, _ := fixture(t, set(1), pod("p", nil))
				clock := clocktesting.NewFakeClock(time.Now())
				r.clock = clock
				r.pace.wrote("default/web", 1_000_000, clock.Now())
				if c.rested {
					clock.Step(paceLimit)
				}
				old := pod("p", nil)
				current := pod("p", c.change)
				current.ResourceVersion = "2"
				r.podChanged(old, current)
				synctest.Wait()
				if got := r.Len(); got != c.atOnce {
					t.Errorf("%d are queued at once, want %d", got, c.atOnce)
				}
				time.Sleep(time.Minute) // of the test's clock, not of the machine's
				if got := r.Len(); got != 1 {
					t.Errorf("%d are queued later, want 1", got)
				}
			})
		})
	}
}
