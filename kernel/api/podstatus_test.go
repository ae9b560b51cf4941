package api_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A status is set in one write that readers of the pod before do not see, keeps the
// time of a condition whose status stays, and is what a client reads; a pod of
// another UID, or none, is left alone.
func TestSetPodStatus(t *testing.T) {
	s := start(t, t.TempDir())
	pods := overTLS(t, s).CoreV1().Pods("default")
	made, err := pods.Create(t.Context(), pod("p"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := stored(t, s, "p")
	was := before.DeepCopy()
	node, none := "n1", ""
	refused := &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "one"}
	if err := s.SetPodStatus(t.Context(), "default", "p", made.UID, refused, &node); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before, was) {
		t.Errorf("the pod before changed: %+v", before.Status)
	}
	first, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || first.Status.NominatedNodeName != node || first.ResourceVersion == made.ResourceVersion {
		t.Fatalf("%+v, %v", first.Status, err)
	}
	condition := func(p *corev1.Pod) corev1.PodCondition {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				return c
			}
		}
		return corev1.PodCondition{}
	}
	if c := condition(first); c.Message != "one" || c.LastTransitionTime.IsZero() {
		t.Errorf("%+v", c)
	}
	again := *refused
	again.Message = "two"
	if err := s.SetPodStatus(t.Context(), "default", "p", made.UID, &again, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPodStatus(t.Context(), "default", "p", made.UID, nil, &none); err != nil {
		t.Fatal(err)
	}
	second, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || second.Status.NominatedNodeName != "" || condition(second).Message != "two" ||
		!condition(second).LastTransitionTime.Time.Equal(condition(first).LastTransitionTime.Time) {
		t.Errorf("%+v, %v", second.Status, err)
	}
	// A name that comes behind the binding is not set; the rest is.
	if err := s.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: made.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}); err != nil {
		t.Fatal(err)
	}
	again.Type, again.Message = "example.com/Late", "three"
	if err := s.SetPodStatus(t.Context(), "default", "p", made.UID, &again, &node); err != nil {
		t.Fatal(err)
	}
	late, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || late.Spec.NodeName != node || late.Status.NominatedNodeName != "" || late.Status.Conditions[len(late.Status.Conditions)-1].Message != "three" {
		t.Errorf("%+v, %v", late.Status, err)
	}
	if err := s.SetPodStatus(t.Context(), "default", "p", types.UID("other"), refused, nil); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	if err := s.SetPodStatus(t.Context(), "default", "q", made.UID, refused, nil); !apierrors.IsNotFound(err) {
		t.Errorf("no pod: %v", err)
	}
}
