package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNeedsRound: which updates of a pod are work: all but those that only bring its status
// back. Where the API counts generations they say whether the spec is another.
func TestNeedsRound(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		generation int64
		change     func(p *corev1.Pod)
		want       bool
	}{
		"its status":                 {1, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"its status, no generations": {0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"its generation":             {1, func(p *corev1.Pod) { p.Generation = 2 }, true},
		"its spec, no generations":   {0, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "b" }, true},
		"its labels":                 {1, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, true},
		"its annotations":            {1, func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, true},
		"its deletion":               {1, func(p *corev1.Pod) { p.DeletionTimestamp = &now }, true},
		"a list again":               {1, func(p *corev1.Pod) { p.ResourceVersion = "1" }, true},
		"readiness gates":            {1, func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "c"}} }, true},
	} {
		old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: c.generation, ResourceVersion: "1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "a"}}}}
		pod := old.DeepCopy()
		pod.ResourceVersion = "2"
		c.change(pod)
		if got := needsRound(old, pod); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
