package probe

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestInherit: a restart of the agent makes no container unready before its probe has run; a container that the former
// agent did not know, or knew as unready, gains nothing.
func TestInherit(t *testing.T) {
	yes := true
	running := func(name, id string, ready bool, age time.Duration) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: id, Ready: ready, Started: &yes, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-age))},
		}}
	}
	tests := []struct {
		name   string
		status corev1.ContainerStatus
		id     string
		want   bool
	}{
		{"was ready", running("c", "fake://1", true, time.Hour), "fake://1", true},
		{"was not ready", running("c", "fake://1", false, time.Hour), "fake://1", false},
		{"another container by now", running("c", "fake://1", true, time.Hour), "fake://2", false},
		{"began after the agent", running("c", "fake://1", true, -time.Hour), "fake://1", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, PeriodSeconds: 3600}
			c := corev1.Container{Name: "c", ReadinessProbe: probe, StartupProbe: probe}
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{tc.status}},
			}
			m := New(Deps{
				Exec: func(ctx context.Context, _ string, _ []string, _ time.Duration) (int, []byte, error) {
					<-ctx.Done()
					return 1, nil, ctx.Err()
				},
				Status:  func(types.UID) (corev1.PodStatus, bool) { return corev1.PodStatus{}, false },
				Event:   func(*corev1.Pod, string, string, string, string) {},
				Changed: func(types.UID) {},
				Logger:  slog.New(slog.DiscardHandler),
			})
			defer m.Close()
			m.Set(pod)
			if got := m.Ready(&c, tc.id); got != tc.want {
				t.Errorf("ready %v, want %v", got, tc.want)
			}
		})
	}
}
