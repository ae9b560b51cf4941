package storage

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
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

// What the caller of ReplaceAll knows is written over without reading it, if it is the latest.
func TestReplaceAllOfKnown(t *testing.T) {
	f := newFixture(t, Options{})
	s, codec := podStorage(t, f)
	bind := func(node string, known *corev1.Pod) error {
		t.Helper()
		failures := s.ReplaceAll(t.Context(), []Replacement{{Key: "/pods/ns/" + known.Name, Known: known, Change: func(obj runtime.Object) (runtime.Object, error) {
			pod := *obj.(*corev1.Pod)
			if pod.Spec.NodeName != "" {
				return nil, errors.New("bound to " + pod.Spec.NodeName)
			}
			pod.Spec.NodeName = node
			return &pod, nil
		}}})
		return failures[0]
	}
	tests := []struct {
		name string
		// since is what happens after the pod became known.
		since   func(t *testing.T, key string)
		forget  bool // the cache has been dropped
		decodes int64
		want    string
		failure string
	}{
		{name: "latest", forget: true, want: "n1"},
		{name: "latest and in the cache", want: "n1"},
		{name: "changed", forget: true, decodes: 1, want: "n1", since: func(t *testing.T, key string) { label(t, s, key) }},
		{name: "bound", forget: true, decodes: 1, want: "n0", failure: "bound to n0", since: func(t *testing.T, key string) { move(t, s, key, "n0") }},
		{name: "gone", forget: true, failure: "not found", since: func(t *testing.T, key string) {
			if err := s.Delete(t.Context(), key, &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key, known := fmt.Sprintf("/pods/ns/p-%d", i), &corev1.Pod{}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i), Namespace: "ns", Labels: map[string]string{"app": "x"}}}
			if err := s.Create(t.Context(), key, pod, known, 0); err != nil {
				t.Fatal(err)
			}
			was := known.DeepCopy()
			if tt.since != nil {
				tt.since(t, key)
			}
			if tt.forget {
				f.backend.Rest()
			}
			before := codec.decodes.Load()
			err := bind("n1", known)
			if (err == nil) != (tt.failure == "") || err != nil && !strings.Contains(err.Error(), tt.failure) {
				t.Errorf("%v", err)
			}
			if got := codec.decodes.Load() - before; got != tt.decodes {
				t.Errorf("%d decodes, not %d", got, tt.decodes)
			}
			if !reflect.DeepEqual(known, was) {
				t.Errorf("what was known has changed: %v", known)
			}
			if tt.want == "" {
				return
			}
			// What is kept is what decoding gives.
			kept, decoded := &corev1.Pod{}, &corev1.Pod{}
			if err := s.Get(t.Context(), key, storage.GetOptions{}, kept); err != nil {
				t.Fatal(err)
			}
			f.backend.Rest()
			if err := s.Get(t.Context(), key, storage.GetOptions{}, decoded); err != nil {
				t.Fatal(err)
			}
			if kept.Spec.NodeName != tt.want || !reflect.DeepEqual(kept, decoded) {
				t.Errorf("kept: %v\ndecoded: %v", kept, decoded)
			}
		})
	}
}

func label(t *testing.T, s *Storage, key string) {
	t.Helper()
	err := s.GuaranteedUpdate(t.Context(), key, &corev1.Pod{}, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		obj.(*corev1.Pod).Labels = map[string]string{"since": "then"}
		return obj, nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
}
