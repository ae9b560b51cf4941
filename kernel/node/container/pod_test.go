package container

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestPort: a port of a probe is a name of the container's or a number, and nothing that only begins as one.
func TestPort(t *testing.T) {
	c := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}, {Name: "80abc", ContainerPort: 9090}}}
	for port, want := range map[intstr.IntOrString]int{
		intstr.FromInt32(80): 80, intstr.FromString("web"): 8080, intstr.FromString("81"): 81, intstr.FromString("80abc"): 9090,
		intstr.FromString("80x"): 0, intstr.FromString("none"): 0, intstr.FromString("70000"): 0, intstr.FromString("-1"): 0, intstr.FromInt32(0): 0,
	} {
		got, err := Port(c, port)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%s: %d, %v; want %d", port.String(), got, err, want)
		}
	}
}

// TestQOS: a request of zero is less than its limit.
func TestQOS(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	for _, c := range []struct {
		name             string
		requests, limits corev1.ResourceList
		want             corev1.PodQOSClass
	}{
		{"nothing", nil, nil, corev1.PodQOSBestEffort},
		{"zeroes", list("0", "0"), list("0", "0"), corev1.PodQOSBestEffort},
		{"equal", list("1", "1Gi"), list("1", "1Gi"), corev1.PodQOSGuaranteed},
		{"zero CPU", list("0", "1Gi"), list("1", "1Gi"), corev1.PodQOSBurstable},
		{"zero memory", list("1", "0"), list("1", "1Gi"), corev1.PodQOSBurstable},
		{"less", list("500m", "1Gi"), list("1", "1Gi"), corev1.PodQOSBurstable},
		{"no limit of memory", list("1", "1Gi"), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, corev1.PodQOSBurstable},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}}}}}
		if got := QOS(pod); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
