package convert

import (
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What a pod takes is what kube-scheduler 1.36 counts: by container, with sidecars,
// init containers, resources of the whole pod, overhead, and resizes under way.
func TestPodRequests(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	cpu := func(s string) v1.ResourceList {
		if s == "" {
			return nil
		}
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(s)}
	}
	container := func(name, request string) v1.Container {
		return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: cpu(request)}}
	}
	sidecar := func(name, request string) v1.Container {
		c := container(name, request)
		c.RestartPolicy = &always
		return c
	}
	status := func(name, allocated, actual string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name, AllocatedResources: cpu(allocated), Resources: &v1.ResourceRequirements{Requests: cpu(actual)}}
	}
	infeasible := []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonInfeasible}}
	for _, c := range []struct {
		name               string
		pod                v1.Pod
		takes, asks, there int64 // thousandths of a processor
	}{
		{"sum", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "1"), container("b", "200m")}}}, 1200, 1200, 1200},
		{"a container without", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "1"), container("b", "")}}}, 1000, 1100, 1100},
		{"zero is a request", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "0")}}}, 0, 0, 0},
		{"a large init container", v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{container("i", "3")}, Containers: []v1.Container{container("a", "1")}}}, 3000, 3000, 3000},
		{"a sidecar before an init container", v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{sidecar("s", "1"), container("i", "3")}, Containers: []v1.Container{container("a", "1")}}}, 4000, 4000, 4000},
		{"a sidecar runs on", v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{container("i", "1"), sidecar("s", "1")}, Containers: []v1.Container{container("a", "1")}}}, 2000, 2000, 2000},
		{"overhead", v1.Pod{Spec: v1.PodSpec{Overhead: cpu("250m"), Containers: []v1.Container{container("a", "")}}}, 250, 350, 350},
		{"of the whole pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: cpu("2")}, Overhead: cpu("1"), Containers: []v1.Container{container("a", "1"), container("b", "")}}}, 3000, 2100, 3000},
		{"memory of the whole pod", v1.Pod{Spec: v1.PodSpec{
			Resources:  &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}},
			Containers: []v1.Container{container("a", "1"), container("b", "")}}}, 1000, 1100, 1000},
		{"memory of the whole pod, no processor", v1.Pod{Spec: v1.PodSpec{
			Resources:  &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}},
			Containers: []v1.Container{container("a", ""), container("b", "")}}}, 0, 200, 200},
		{"one grows while another shrinks", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "2"), container("b", "1")}},
			Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{status("a", "1", "1"), status("b", "2", "2")}}}, 4000, 4000, 4000},
		{"a resize that cannot be", v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{container("a", "9")}, InitContainers: []v1.Container{sidecar("s", "1")}},
			Status: v1.PodStatus{Conditions: infeasible, ContainerStatuses: []v1.ContainerStatus{status("a", "2", "1")}}}, 3000, 3000, 3000},
		{"a resize of the whole pod", v1.Pod{Spec: v1.PodSpec{Resources: &v1.ResourceRequirements{Requests: cpu("1")}, Containers: []v1.Container{container("a", "1")}},
			Status: v1.PodStatus{Resources: &v1.ResourceRequirements{Requests: cpu("3")}}}, 3000, 1000, 3000},
	} {
		pod, err := NewPod(&c.pod)
		if err != nil {
			t.Fatal(err)
		}
		there := pod.Occupant("p", "u", "n")
		if pod.Message.Requests.MilliCpu != c.takes || pod.Message.NonZeroMilliCpu != c.asks || there.NonZeroMilliCpu != c.there {
			t.Errorf("%s: takes %d, asks %d, there %d; want %d, %d, %d", c.name,
				pod.Message.Requests.MilliCpu, pod.Message.NonZeroMilliCpu, there.NonZeroMilliCpu, c.takes, c.asks, c.there)
		}
	}
}

// Quantities that no number holds, one by one or together, are more than any node
// has, and those of a node's pods still add up.
func TestAbsurdQuantities(t *testing.T) {
	most := resource.NewQuantity(math.MaxInt64, resource.BinarySI)
	sum := most.DeepCopy()
	for range 9 {
		sum.Add(*most)
	}
	beyond := resource.MustParse("1e40")
	for name, q := range map[string]*resource.Quantity{"the largest": most, "a sum": &sum, "beyond": &beyond} {
		if amount(q) != amountMax || milli(q) != amountMax {
			t.Errorf("%s: %d, %d", name, amount(q), milli(q))
		}
	}
	small := resource.MustParse("1500m")
	if amount(&small) != 2 || milli(&small) != 1500 {
		t.Errorf("%d, %d", amount(&small), milli(&small))
	}
	if total := int64(amountMax) * 255; total < 0 || total/255 != amountMax {
		t.Error("255 of them are no number")
	}
}
