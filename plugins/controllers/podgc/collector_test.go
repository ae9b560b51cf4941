package podgc

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func pod(name, node string, phase corev1.PodPhase, age int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0))},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}
}

func leaving(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = ptr.To(metav1.Now())
	return p
}

// PGC-3, PGC-5, PGC-6, PGC-8.
func TestExcess(t *testing.T) {
	evictedPod := pod("evicted", "n", corev1.PodFailed, 0)
	evictedPod.Status.Reason = "Evicted"
	pods := []*corev1.Pod{
		pod("young", "n", corev1.PodSucceeded, 1), pod("old", "n", corev1.PodFailed, 9), evictedPod,
		pod("runs", "n", corev1.PodRunning, 99), pod("waits", "n", corev1.PodPending, 99), pod("unknown", "n", corev1.PodUnknown, 99),
	}
	for threshold, want := range map[int]string{3: "", 2: "evicted ", 1: "evicted old ", 99: ""} {
		got := ""
		for _, p := range excess(pods, threshold) {
			got += p.Name + " "
		}
		if got != want {
			t.Errorf("threshold %d: %q, want %q", threshold, got, want)
		}
	}
}

// TestFailedPatch: a pod that is marked says which generation the mark is of.
func TestFailedPatch(t *testing.T) {
	p := pod("a", "n", corev1.PodRunning, 0)
	p.Generation = 7
	patch, err := failedPatch(p, nil)
	if want := `{"metadata":{"uid":"a"},"status":{"observedGeneration":7,"phase":"Failed"}}`; err != nil || string(patch) != want {
		t.Errorf("%s, %v, want %s", patch, err, want)
	}
}

// NDC-13 and the other pods that nobody else deletes.
func TestCollect(t *testing.T) {
	sick := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "sick"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}}}
	well := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "well"}}
	pods := []*corev1.Pod{
		pod("orphan", "gone", corev1.PodRunning, 0), pod("stays", "well", corev1.PodRunning, 0), leaving(pod("leaving", "well", corev1.PodRunning, 0)),
		leaving(pod("unbound", "", corev1.PodPending, 0)), leaving(pod("stuck", "sick", corev1.PodRunning, 0)),
	}
	client := fake.NewClientset(sick, well)
	shared := informers.NewSharedInformerFactory(client, 0)
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	c := build(client, shared, Config{}, clock, slog.New(slog.DiscardHandler))
	for _, n := range []*corev1.Node{sick, well} {
		if err := shared.Core().V1().Nodes().Informer().GetIndexer().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pods {
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
		if err := shared.Core().V1().Pods().Informer().GetIndexer().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	left := func() string {
		list, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, p := range list.Items {
			names = append(names, p.Name)
		}
		return fmt.Sprint(names)
	}
	if err := c.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "[leaving orphan stays]" {
		t.Errorf("first: %s", got)
	}
	clock.Step(quarantine)
	if err := c.collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "[leaving stays]" {
		t.Errorf("after the quarantine: %s", got)
	}
}
