package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPressed: under pressure of memory best-effort pods are refused, under that of disks all, but for critical ones.
func TestPressed(t *testing.T) {
	node := func(types ...corev1.NodeConditionType) *corev1.Node {
		n := &corev1.Node{}
		for _, c := range []corev1.NodeConditionType{corev1.NodeReady, "Other"} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionTrue})
		}
		for _, c := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure} {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionFalse})
		}
		for _, c := range types {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionTrue})
		}
		return n
	}
	bestEffort, burstable, critical, tolerant := &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}
	for _, p := range []*corev1.Pod{bestEffort, burstable, critical, tolerant} {
		p.Spec.Containers = []corev1.Container{{Name: "c"}}
	}
	burstable.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}
	priority := int32(systemCritical)
	critical.Spec.Priority = &priority
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists}}
	for _, c := range []struct {
		pod  *corev1.Pod
		node *corev1.Node
		want string
	}{
		{bestEffort, node(), ""},
		{bestEffort, node(corev1.NodeMemoryPressure), "The node had condition: [MemoryPressure]. "},
		{tolerant, node(corev1.NodeMemoryPressure), ""},
		{burstable, node(corev1.NodeMemoryPressure), ""},
		{critical, node(corev1.NodeMemoryPressure, corev1.NodeDiskPressure), ""},
		{burstable, node(corev1.NodeDiskPressure), "The node had condition: [DiskPressure]. "},
		{tolerant, node(corev1.NodeMemoryPressure, corev1.NodePIDPressure), "The node had condition: [MemoryPressure PIDPressure]. "},
	} {
		got := pressed(c.pod, c.node)
		if (got == nil) != (c.want == "") || got != nil && (got.reason != "Evicted" || got.message != c.want) {
			t.Errorf("%v, want %q", got, c.want)
		}
	}
}
