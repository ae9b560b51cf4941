package nodelifecycle

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/sdk/controller"
)

// NDC-2: a silent node is tainted in the end and its pod is marked, while those of a
// lively one are left alone. No pod is deleted, and the controller ends all that it
// started.
func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		}
	}
	lively := node("lively", corev1.ConditionTrue)
	lively.Labels = map[string]string{corev1.LabelOSStable: "linux"}
	client := fake.NewClientset(node("quiet", corev1.ConditionTrue), lively, pod("marked", "quiet"), pod("stays", "lively"))
	shared := informers.NewSharedInformerFactory(client, 0)
	runner, err := New(&controller.Context{
		Logger: slog.New(slog.DiscardHandler), Client: client, Informers: shared,
		Config: []byte(`{"nodeMonitorPeriod":"100ms","nodeMonitorGracePeriod":"2s","nodeEvictionRate":100}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	shared.Start(ctx.Done())
	defer shared.Shutdown()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-deadline:
			t.Fatal("the pod of the silent node is not marked, or the node has no taints")
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-tick.C:
		}
		n, err := client.CoreV1().Nodes().Get(ctx, "lively", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		condition(&n.Status, corev1.NodeReady).LastHeartbeatTime = metav1.Now()
		if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if n, err = client.CoreV1().Nodes().Get(ctx, "quiet", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		p, err := client.CoreV1().Pods("ns").Get(ctx, "marked", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		taints := words(n.Spec.Taints) // each is written by itself
		done = p.Status.Conditions[0].Status == corev1.ConditionFalse && (taints == "unreachable:NoSchedule unreachable:NoExecute" || taints == "unreachable:NoExecute unreachable:NoSchedule")
	}
	if p, err := client.CoreV1().Pods("ns").Get(ctx, "stays", metav1.GetOptions{}); err != nil || p.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("%v, %v", p, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
