package nodepods

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// Two controllers ask for the index; pods that are bound to no node are of none.
func TestOn(t *testing.T) {
	informer := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().Pods().Informer()
	if got := On(informer.GetIndexer(), "a"); len(got) != 0 {
		t.Errorf("without an index: %v", got)
	}
	for range 2 {
		if err := Index(informer); err != nil {
			t.Fatal(err)
		}
	}
	for name, node := range map[string]string{"one": "a", "two": "a", "three": "b", "unbound": ""} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
		if err := informer.GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	for node, want := range map[string][]string{"a": {"one", "two"}, "b": {"three"}, "": nil, "c": nil} {
		var names []string
		for _, p := range On(informer.GetIndexer(), node) {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("node %q: %v, want %v", node, names, want)
		}
	}
}
