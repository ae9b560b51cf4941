package scheduler

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// filled is a pod that has something of everything that is kept and of what is most of it.
func filled(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: types.UID(name), ResourceVersion: "7", Generation: 1, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			OwnerReferences: []metav1.OwnerReference{{Name: "owner"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: v1.PodSpec{
			NodeName: node, SchedulerName: "s", Priority: ptr.To(int32(5)), PriorityClassName: "high", PreemptionPolicy: ptr.To(v1.PreemptNever), Tolerations: []v1.Toleration{{Key: "t"}},
			Containers: []v1.Container{{Name: "c", Image: "i"}}, Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, StartTime: ptr.To(metav1.Unix(100, 0)), ContainerStatuses: []v1.ContainerStatus{{Name: "c"}},
			Conditions: []v1.PodCondition{{Type: v1.PodReady}, {Type: v1.DisruptionTarget, Status: v1.ConditionTrue}, {Type: v1.PodResizePending}, {Type: v1.PodResizeInProgress}},
		},
	}
}

// Of a pod on a node no more is kept than what is read of it; of one that waits, and where
// there are extenders, all. The objects are the API's, and stay as they are.
func TestWhatIsKeptOfPods(t *testing.T) {
	short := filled("bound", "n")
	short.ManagedFields, short.Spec.Containers, short.Spec.Volumes, short.Status.ContainerStatuses = nil, nil, nil, nil
	short.Status.Conditions = short.Status.Conditions[1:]
	for _, tt := range []struct {
		name      string
		pod, want *v1.Pod
		extenders bool
	}{
		{"on a node", filled("bound", "n"), short, false},
		{"that waits", filled("waits", ""), filled("waits", ""), false},
		{"on a node, with extenders", filled("bound", "n"), filled("bound", "n"), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := make(chan event, 4)
			in := newPodInlet(t.Context(), out, tt.extenders)
			before := tt.pod.DeepCopy()
			for range 2 { // the second time its shape is known
				if err := in.Add(tt.pod); err != nil {
					t.Fatal(err)
				}
				e := <-out
				for _, got := range []*v1.Pod{e.pod, in.seen[tt.pod.UID].pod} {
					if !reflect.DeepEqual(got, tt.want) {
						t.Errorf("kept %+v\nwant %+v", got, tt.want)
					}
				}
				if len(e.shape.Message.GetContainers()) != 1 {
					t.Errorf("its shape is %v", e.shape.Message)
				}
			}
			if len(in.seen) != 1 || !reflect.DeepEqual(tt.pod, before) {
				t.Errorf("the API's object was changed: %+v", tt.pod)
			}
		})
	}
}

// A change of what is not kept is seen all the same: the shape goes by the whole pod.
func TestShapeGoesByTheWholePod(t *testing.T) {
	out := make(chan event, 4)
	in := newPodInlet(t.Context(), out, false)
	for i, image := range []string{"one", "two", "two"} {
		pod := filled("bound", "n")
		pod.Generation, pod.Spec.Containers[0].Image = int64(i+1), image
		if err := in.Update(pod); err != nil {
			t.Fatal(err)
		}
		if got := (<-out).shape.Message.GetContainers()[0].GetImage(); got != image {
			t.Errorf("the shape has image %s, want %s", got, image)
		}
	}
}
