package podresize

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"
)

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// What a node can never give is refused; what others have at present is not.
func TestValidate(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: list("4", "8Gi")}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w", Labels: map[string]string{corev1.LabelOSStable: "windows"}}, Status: corev1.NodeStatus{Allocatable: list("4", "8Gi")}})
	for _, c := range []struct {
		name, node  string
		subresource string
		size        corev1.ResourceList
		sidecar     corev1.ResourceList
		unchanged   bool
		want        string
	}{
		{name: "all of the node", node: "n", subresource: "resize", size: list("4", "8Gi")},
		{name: "more CPU", node: "n", subresource: "resize", size: list("1000", "1Gi"), want: "cpu, requested: 1000000, allocatable: 4000"},
		{name: "more memory", node: "n", subresource: "resize", size: list("1", "9Gi"), want: "memory, requested: 9663676416, allocatable: 8589934592"},
		{name: "with its sidecar", node: "n", subresource: "resize", size: list("3", "1Gi"), sidecar: list("2", "1Gi"), want: "cpu, requested: 5000"},
		{name: "another operating system", node: "w", subresource: "resize", size: list("1", "1Gi"), want: "only supported on linux nodes"},
		{name: "a node that is gone", node: "x", subresource: "resize", size: list("1", "1Gi"), want: `node "x" not found`},
		{name: "on no node", subresource: "resize", size: list("1000", "1Gi")},
		{name: "nothing changed", node: "n", subresource: "resize", size: list("1000", "1Gi"), unchanged: true},
		{name: "no resize", node: "n", subresource: "status", size: list("1000", "1Gi")},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: c.size}}}}}
			if c.sidecar != nil {
				always := corev1.ContainerRestartPolicyAlways
				pod.Spec.InitContainers = []corev1.Container{{RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: c.sidecar}}}
			}
			old := pod.DeepCopy()
			if !c.unchanged {
				pod.Generation++
			}
			a := admission.NewAttributesRecord(pod, old, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p", corev1.SchemeGroupVersion.WithResource("pods"), c.subresource, admission.Update, nil, false, nil)
			err := New(client).Validate(t.Context(), a, nil)
			if c.want == "" && err != nil || c.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
