package podtopologylabels

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// A pod has its node's zone and region, whatever it says itself, and nothing else
// of the node.
func TestAdmit(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	p := New(factory)
	for _, n := range []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "both", Labels: map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "r", "secret": "x"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "zone", Labels: map[string]string{corev1.LabelTopologyZone: "b"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
	} {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, node, subresource string
		have, want              map[string]string
	}{
		{"both", "both", "", nil, map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "r"}},
		{"its own word", "zone", "", map[string]string{corev1.LabelTopologyZone: "lie", "app": "x"}, map[string]string{corev1.LabelTopologyZone: "b", "app": "x"}},
		{"a node without", "plain", "", map[string]string{"app": "x"}, map[string]string{"app": "x"}},
		{"a node that is not there", "none", "", nil, nil},
		{"no node", "", "", nil, nil},
		{"a subresource", "both", "status", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: c.have}, Spec: corev1.PodSpec{NodeName: c.node}}
			a := admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p", corev1.SchemeGroupVersion.WithResource("pods"), c.subresource, admission.Create, nil, false, nil)
			if err := p.Admit(t.Context(), a, nil); err != nil || !maps.Equal(pod.Labels, c.want) {
				t.Errorf("%v, %v; want %v", pod.Labels, err, c.want)
			}
		})
	}
}
