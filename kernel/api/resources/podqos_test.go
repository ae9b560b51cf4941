package resources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A request of zero is less than its limit: such a pod is not Guaranteed.
func TestPodQOSWithZeroRequests(t *testing.T) {
	for _, tc := range []struct {
		cpu  string
		want corev1.PodQOSClass
	}{{"1", corev1.PodQOSGuaranteed}, {"0", corev1.PodQOSBurstable}} {
		list := func(cpu string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}
		}
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(tc.cpu), Limits: list("1")}}
		if got := podQOS(&corev1.PodSpec{Containers: []corev1.Container{c}}); got != tc.want {
			t.Errorf("requests of %s CPU: %s, want %s", tc.cpu, got, tc.want)
		}
	}
}
