package storage

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// Conditions on indexed fields select what the selector selects that they are of.
func TestTerms(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	attrs := func(obj runtime.Object) (labels.Set, fields.Set, error) {
		pod := obj.(*corev1.Pod)
		return pod.Labels, fields.Set{"spec.nodeName": pod.Spec.NodeName, "metadata.name": pod.Name}, nil
	}
	for text, known := range map[string]bool{
		"spec.nodeName=a": true, "spec.nodeName!=": true, "spec.nodeName==": true, "spec.nodeName!=a,spec.nodeName!=b": true,
		"spec.nodeName=a,spec.nodeName=b": true, "spec.nodeName=a,metadata.name=p": false, "metadata.name!=p": false, "": false,
	} {
		field, err := fields.ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		p := storage.SelectionPredicate{Label: labels.Everything(), Field: field, GetAttrs: attrs}
		terms, ok := s.terms(p)
		if ok != known {
			t.Errorf("%q: %t", text, ok)
			continue
		}
		for _, node := range []string{"", "a", "b", "c"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: node}}
			if ok && meets(terms, pod) != matches(p, pod) {
				t.Errorf("%q selects a pod on %q: %t", text, node, meets(terms, pod))
			}
		}
		p.Label = labels.SelectorFromSet(labels.Set{"a": "b"})
		if _, ok := s.terms(p); ok {
			t.Errorf("%q with labels", text)
		}
	}
}

// Replacing many asks about what is there, not about what another kernel's cache or an older one of this has.
func TestReplaceAllOverOthers(t *testing.T) {
	f := newFixture(t, Options{})
	stale, _ := podStorage(t, f)
	s, _ := podStorage(t, f)
	replacements := func(node string, names ...string) (list []Replacement) {
		for _, name := range names {
			list = append(list, Replacement{Key: "/pods/ns/" + name, Change: func(obj runtime.Object) (runtime.Object, error) {
				pod := *obj.(*corev1.Pod)
				if pod.Spec.NodeName != "" && pod.Spec.NodeName != "moved" {
					return nil, errors.New("bound to " + pod.Spec.NodeName)
				}
				pod.Spec.NodeName = node
				return &pod, nil
			}})
		}
		return list
	}
	for _, name := range []string{"same", "changed", "freed", "gone"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		if name == "freed" {
			pod.Spec.NodeName = "old"
		}
		if err := stale.Create(t.Context(), "/pods/ns/"+name, pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	// The cache of the one does not hear of what the other writes.
	for _, name := range []string{"changed", "freed"} {
		move(t, s, "/pods/ns/"+name, "moved")
	}
	if err := s.Delete(t.Context(), "/pods/ns/gone", &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	failures := stale.ReplaceAll(t.Context(), replacements("n1", "same", "changed", "freed", "gone", "never"))
	for i, want := range []bool{true, true, true, false, false} {
		if (failures[i] == nil) != want || !want && !storage.IsNotFound(failures[i]) {
			t.Errorf("%d: %v", i, failures[i])
		}
	}
	for i, err := range s.ReplaceAll(t.Context(), replacements("n2", "same", "changed", "freed")) {
		if err == nil || err.Error() != "bound to n1" {
			t.Errorf("%d, a second time: %v", i, err)
		}
	}
}
