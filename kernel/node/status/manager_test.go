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
// then. What comes later is written at once, and so is the same once more.
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
		"again":  {pending, pending, firstPeriod / 4, 1, firstPeriod / 4},
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

// TestDeletionSeenWaits: that a deletion was seen is written unless the containers have ended by
// then; what comes later is written at once, and a write that failed is not held up.
func TestDeletionSeenWaits(t *testing.T) {
	now := metav1.Now()
	was := corev1.PodStatus{ObservedGeneration: 1, Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}
	seen, stopping, ended := *was.DeepCopy(), *was.DeepCopy(), *was.DeepCopy()
	seen.ObservedGeneration, stopping.ObservedGeneration, ended.ObservedGeneration = 2, 2, 2
	stopping.Message = "stopping"
	ended.Phase, ended.ContainerStatuses[0].State = corev1.PodSucceeded, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	for name, tc := range map[string]struct {
		statuses []corev1.PodStatus
		apart    time.Duration
		writes   int
		within   time.Duration // until the first write
	}{
		"quick":    {[]corev1.PodStatus{seen, ended}, firstPeriod / 2, 1, firstPeriod / 2},
		"slow":     {[]corev1.PodStatus{seen, ended}, 2 * firstPeriod, 2, firstPeriod},
		"changing": {[]corev1.PodStatus{seen, stopping, seen, stopping, seen}, firstPeriod * 3 / 4, 4, firstPeriod},
		"at once":  {[]corev1.PodStatus{ended}, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Generation: 2, DeletionTimestamp: &now, Finalizers: []string{"example.com/hold"}}, Status: was}
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
				go func() {
					for _, s := range tc.statuses {
						m.Set(pod, s)
						time.Sleep(tc.apart)
					}
				}()
				if tc.within > 0 {
					time.Sleep(tc.within - time.Millisecond)
					synctest.Wait()
					if n := writes(); n != 0 {
						t.Errorf("%d writes before %s", n, tc.within)
					}
					time.Sleep(time.Millisecond)
				}
				synctest.Wait()
				if n := writes(); n != 1 {
					t.Errorf("%d writes after %s, want 1", n, tc.within)
				}
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if n := writes(); n != tc.writes {
					t.Errorf("%d writes in all, want %d", n, tc.writes)
				}
				last := tc.statuses[len(tc.statuses)-1]
				got, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
				if err != nil || got.Status.Phase != last.Phase || got.Status.Message != last.Message || got.Status.ObservedGeneration != 2 {
					t.Errorf("%+v, want %+v; %v", got.Status, last, err)
				}
				cancel()
				m.Close()
			})
		})
	}
}

// TestEcho: the echo of the agent's own write says nothing new. What another client makes of
// the status afterwards is written over, also where it comes with the same words twice.
func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "1"}}
		client := fake.NewClientset(pod)
		m := New(client, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		m.Start(ctx)
		failed := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "by its node"}
		m.Set(pod, failed)
		synctest.Wait()
		answer, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
		if err != nil || answer.Status.Phase != corev1.PodFailed {
			t.Fatalf("the API has %s; %v", answer.Status.Phase, err)
		}
		// The fake counts no versions: the answer had the one before.
		echo := answer.DeepCopy()
		known := m.pods["u"].wrote
		m.Observe(echo)
		if m.pods["u"].wrote != known || len(m.queue) != 0 {
			t.Error("an echo made work")
		}
		for _, version := range []string{"2", "3"} {
			other := answer.DeepCopy()
			other.ResourceVersion, other.Status.Reason = version, "Stolen"
			if _, err := client.CoreV1().Pods("ns").UpdateStatus(ctx, other, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			m.Observe(other)
			synctest.Wait()
			now, err := client.CoreV1().Pods("ns").Get(ctx, "p", metav1.GetOptions{})
			if err != nil || now.Status.Reason != "Evicted" {
				t.Errorf("after version %s the reason is %q; %v", version, now.Status.Reason, err)
			}
		}
		cancel()
		m.Close()
	})
}
