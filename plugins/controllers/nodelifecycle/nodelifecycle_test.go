package nodelifecycle

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"pintle.dev/pintle/sdk/controller"
)

func node(name string, ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func words(taints []corev1.Taint) string {
	var out []string
	for _, t := range taints {
		out = append(out, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	return strings.Join(out, " ")
}

// unstarted is a controller whose caches the test fills.
func unstarted(t *testing.T, client kubernetes.Interface) *lifecycle {
	t.Helper()
	runner, err := New(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
	if err != nil {
		t.Fatal(err)
	}
	l := runner.(*lifecycle)
	t.Cleanup(l.taints.Close)
	l.recorder = record.NewFakeRecorder(100)
	return l
}

// 004 [7.9]: conditions become NoSchedule taints; other taints stay.
func TestNoScheduleTaints(t *testing.T) {
	other := corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoSchedule}
	unready := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	for name, tc := range map[string]struct {
		node *corev1.Node
		want string
	}{
		"ready":       {node("n", corev1.ConditionTrue, unready, other), "mine:NoSchedule"},
		"not ready":   {node("n", corev1.ConditionFalse, other), "mine:NoSchedule not-ready:NoSchedule"},
		"unreachable": {node("n", corev1.ConditionUnknown, unready), "unreachable:NoSchedule"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := words(noScheduleTaints(tc.node, metav1.Now())); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// NC-6, NC-7: how fast a zone is evicted.
func TestEvictionRate(t *testing.T) {
	for _, tc := range []struct {
		ready, all int
		want       rate.Limit
	}{{10, 10, 0.1}, {1, 3, 0.1}, {4, 10, 0}, {5, 10, 0.1}, {20, 60, 0.01}, {0, 5, 0.1}} {
		if got := defaults().evictionRate(tc.ready, tc.all); got != tc.want {
			t.Errorf("%d of %d ready: %v, want %v", tc.ready, tc.all, got, tc.want)
		}
	}
}

// NDC-2: a node that goes silent becomes Unknown after the grace period, its
// pods not ready, and it is tainted, as another node is there.
func TestSilentNode(t *testing.T) {
	quiet, lively := node("quiet", corev1.ConditionTrue), node("lively", corev1.ConditionTrue)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "quiet"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	client := fake.NewClientset(quiet, lively, pod)
	l := unstarted(t, client)
	clock := time.Now()
	l.now = func() time.Time { return clock }
	ctx := t.Context()
	refresh := func() *corev1.Node {
		t.Helper()
		for _, name := range []string{"quiet", "lively"} {
			n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if name == "lively" {
				n = n.DeepCopy()
				n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(clock)
			}
			if err := l.informers.nodes.GetStore().Update(n); err != nil {
				t.Fatal(err)
			}
		}
		n, _ := l.nodes.Get("quiet")
		return n
	}
	if err := l.informers.pods.GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
	refresh()
	l.monitor(ctx)
	if n := refresh(); condition(&n.Status, corev1.NodeReady).Status != corev1.ConditionTrue {
		t.Fatal("judged at once")
	}
	clock = clock.Add(l.config.NodeMonitorGracePeriod.Duration + time.Second)
	refresh()
	l.monitor(ctx)
	n := refresh()
	if c := condition(&n.Status, corev1.NodeReady); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
		t.Fatalf("condition %+v", c)
	}
	if c := condition(&n.Status, corev1.NodeMemoryPressure); c == nil || c.Reason != "NodeStatusNeverUpdated" {
		t.Errorf("condition %+v", c)
	}
	if p, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{}); err != nil || p.Status.Conditions[0].Status != corev1.ConditionFalse {
		t.Errorf("pod %v, %v", p, err)
	}
	l.taintUnhealthy(ctx)
	if got := words(refresh().Spec.Taints); got != "unreachable:NoExecute" {
		t.Fatalf("taints %q", got)
	}
}

// A node that says itself that it is not ready is tainted as such, and answers
// for its pods: their readiness is left to it. When it then falls silent the
// other taint takes the place of this one, and the pods are marked.
func TestSickNode(t *testing.T) {
	ctx, clock := t.Context(), time.Now()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{NodeName: "sick"},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	client := fake.NewClientset(node("sick", corev1.ConditionFalse), node("well", corev1.ConditionTrue), pod)
	l := unstarted(t, client)
	l.now = func() time.Time { return clock }
	pass := func(beats ...string) (taints string, podReady corev1.ConditionStatus) {
		t.Helper()
		for range 2 { // the second sees what the first wrote
			for _, name := range []string{"sick", "well"} {
				n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(beats, name) {
					condition(&n.Status, corev1.NodeReady).LastHeartbeatTime = metav1.NewTime(clock)
				}
				if err := l.informers.nodes.GetStore().Update(n); err != nil {
					t.Fatal(err)
				}
			}
			l.monitor(ctx)
			l.taintUnhealthy(ctx)
		}
		n, err := client.CoreV1().Nodes().Get(ctx, "sick", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return words(n.Spec.Taints), p.Status.Conditions[0].Status
	}
	if err := l.informers.pods.GetStore().Add(pod); err != nil {
		t.Fatal(err)
	}
	if taints, ready := pass("sick", "well"); taints != "not-ready:NoExecute" || ready != corev1.ConditionTrue {
		t.Errorf("not ready: taints %q, pod ready %s", taints, ready)
	}
	clock = clock.Add(l.config.NodeMonitorGracePeriod.Duration + time.Second)
	if taints, ready := pass("well"); taints != "unreachable:NoExecute" || ready != corev1.ConditionFalse {
		t.Errorf("silent: taints %q, pod ready %s", taints, ready)
	}
}
