package status

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestFirstStatusWaits: that containers are being created is written unless they run by
// then, and what comes later is written at once.
func TestFirstStatusWaits(t *testing.T) {
	pending := corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "c"}}}
	running := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true}}}
	failed := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	for name, tc := range map[string]struct {
		first, second corev1.PodStatus
		after         time.Duration // of the second
		writes        int
		within        time.Duration // until the first write
	}{
		"quick":  {pending, running, firstPeriod / 2, 1, firstPeriod / 2},
		"slow":   {pending, running, 2 * firstPeriod, 2, firstPeriod},
		"failed": {failed, failed, time.Second, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
				client := fake.NewClientset(pod)
				m := New(client, nil, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				m.Start(ctx)
				writes := func() (n int) {
					for _, a := range client.Actions() {
						if a.GetVerb() == "patch" {
							n++
						}
					}
					return n
				}
				m.Set(pod, tc.first)
				go func() {
					time.Sleep(tc.after)
					m.Set(pod, tc.second)
				}()
				time.Sleep(tc.within)
				synctest.Wait()
				if n := writes(); n != 1 {
					t.Errorf("%d writes after %s, want 1", n, tc.within)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if n := writes(); n != tc.writes {
					t.Errorf("%d writes in all, want %d", n, tc.writes)
				}
				got, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
				if err != nil || got.Status.Phase != tc.second.Phase {
					t.Errorf("phase %s, want %s; %v", got.Status.Phase, tc.second.Phase, err)
				}
				cancel()
				m.Close()
			})
		})
	}
}
