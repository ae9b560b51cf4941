package scheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Of pods on nodes no managed fields are kept, as kube-scheduler keeps none of any. The
// objects are the API's, and stay as they are.
func TestManagedFieldsAreNotKept(t *testing.T) {
	out := make(chan event, 4)
	in := newPodInlet(t.Context(), out)
	pod := func(name, node string) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name), Generation: 1, Labels: map[string]string{"a": "b"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
			Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c"}}}, Status: v1.PodStatus{Phase: v1.PodRunning},
		}
	}
	for _, tt := range []struct {
		pod  *v1.Pod
		kept bool
	}{{pod("bound", "n"), false}, {pod("waits", ""), true}} {
		if err := in.Add(tt.pod); err != nil {
			t.Fatal(err)
		}
		told, seen := (<-out).pod, in.seen[tt.pod.UID].pod
		for _, got := range []*v1.Pod{told, seen} {
			if (got.ManagedFields != nil) != tt.kept || got.Labels["a"] != "b" || got.Spec.NodeName != tt.pod.Spec.NodeName || got.Status.Phase != v1.PodRunning {
				t.Errorf("%s: %+v", tt.pod.Name, got)
			}
		}
		if tt.pod.ManagedFields == nil {
			t.Errorf("%s: the API's object was changed", tt.pod.Name)
		}
	}
}
