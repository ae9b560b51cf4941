package api_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/api"
)

// stored is the pod as the kernel's own parts see it: the storage's own object.
func stored(t *testing.T, s *api.Server, name string) *corev1.Pod {
	t.Helper()
	source, err := s.Source(corev1.SchemeGroupVersion.WithResource("pods"), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := source.List(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.(*corev1.PodList).Items {
		if p := &list.(*corev1.PodList).Items[i]; p.Name == name {
			return p
		}
	}
	t.Fatalf("no pod %s", name)
	return nil
}

// A bound pod is kept in memory without having been decoded: it is what a server that
// has only the stored bytes makes of them, and the pod before it, which readers
// may still hold, is as it was.
func TestBindKeepsWhatIsStored(t *testing.T) {
	dir := t.TempDir()
	names := []string{"plain", "annotated", "tried"}
	after := map[string]*corev1.Pod{}
	t.Run("bind", func(t *testing.T) {
		s := start(t, dir)
		pods := overTLS(t, s).CoreV1().Pods("default")
		for _, name := range names {
			p := pod(name)
			b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
			if name == "annotated" {
				p.Annotations = map[string]string{"a": "1", "b": "2"}
				b.Annotations, b.Labels = map[string]string{"a": "3", "c": "4"}, map[string]string{"by": "me"}
			}
			made, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if name == "tried" {
				made.Status.NominatedNodeName = "n0"
				made.Status.Conditions = append(made.Status.Conditions,
					corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: metav1.Now()},
					corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()})
				if _, err := pods.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			before := stored(t, s, name)
			was := before.DeepCopy()
			if err := s.Bind(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(before, was) {
				t.Errorf("%s: the pod before changed:\n%+v\nwas:\n%+v", name, before, was)
			}
			after[name] = stored(t, s, name)
			if after[name].Spec.NodeName != "n1" || after[name].Status.NominatedNodeName != "" || after[name].ResourceVersion == was.ResourceVersion {
				t.Errorf("%s: bound: %+v", name, after[name])
			}
		}
		if got := after["annotated"].Annotations; !reflect.DeepEqual(got, map[string]string{"a": "3", "b": "2", "c": "4"}) {
			t.Errorf("annotations %v", got)
		}
	})
	t.Run("again", func(t *testing.T) {
		s := start(t, dir)
		for _, name := range names {
			if got := stored(t, s, name); !reflect.DeepEqual(got, after[name]) {
				t.Errorf("%s decoded:\n%+v\nkept:\n%+v", name, got, after[name])
			}
		}
	})
}
