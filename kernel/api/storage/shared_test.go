package storage

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// countingEncoder is one format: it counts what it encodes. As the encoders of k8s.io/apiserver, it leaves the encoding
// with an object that can keep it.
type countingEncoder struct {
	runtime.Encoder
	id    runtime.Identifier
	count atomic.Int64
}

func (e *countingEncoder) Encode(obj runtime.Object, w io.Writer) error {
	if shared, ok := obj.(runtime.CacheableObject); ok {
		return shared.CacheEncode(e.id, e.encode, w)
	}
	return e.encode(obj, w)
}

func (e *countingEncoder) encode(obj runtime.Object, w io.Writer) error {
	e.count.Add(1)
	_, err := fmt.Fprintf(w, "%s %s of %s", e.id, obj.(*corev1.Pod).Name, obj.(*corev1.Pod).ResourceVersion)
	return err
}

// One encoding of an event serves all watches of a format, live; each format has its own, and selectors that an object
// leaves get its last state.
func TestEncodedOnceAFormat(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	const each = 50
	start := func(p storage.SelectionPredicate) (watches []watch.Interface) {
		for range each {
			w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "1", Predicate: p, Recursive: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Stop)
			watches = append(watches, w)
		}
		return watches
	}
	everything, selected := start(storage.Everything), start(onNode("n1"))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	if err := s.Create(t.Context(), "/pods/ns/p", pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	json, protobuf := &countingEncoder{id: "json"}, &countingEncoder{id: "protobuf"}
	// All are taken before the first is encoded, as when watches are served at the same time.
	check := func(watches []watch.Interface, kind watch.EventType, version string) {
		t.Helper()
		var objects []runtime.Object
		for _, w := range watches {
			e := next(t, w)
			if e.Type != kind {
				t.Fatalf("got %s, want %s", e.Type, kind)
			}
			objects = append(objects, e.Object)
		}
		before := json.count.Load()
		var wg sync.WaitGroup
		for _, obj := range objects {
			for _, encoder := range []*countingEncoder{json, protobuf} {
				wg.Go(func() {
					var b bytes.Buffer
					if err := encoder.Encode(obj, &b); err != nil || b.String() != fmt.Sprintf("%s p of %s", encoder.id, version) {
						t.Errorf("encoded %q, %v", b.String(), err)
					}
				})
			}
		}
		wg.Wait()
		if n := json.count.Load() - before; n != 1 {
			t.Errorf("%s was encoded %d times", kind, n)
		}
	}
	check(append(everything, selected...), watch.Added, "2")
	moved := move(t, s, "/pods/ns/p", "n2")
	check(everything, watch.Modified, moved)
	check(selected, watch.Deleted, moved)
	if json.count.Load() != protobuf.count.Load() {
		t.Errorf("%d and %d encodings of two formats", json.count.Load(), protobuf.count.Load())
	}
	// A watch that nobody encodes gets the resource's own type.
	w, err := s.Watch(WithPlainObjects(t.Context()), "/pods", storage.ListOptions{ResourceVersion: "1", Predicate: storage.Everything, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := next(t, w); e.Object.(*corev1.Pod).Name != "p" {
		t.Errorf("got %+v", e.Object)
	}
}

// Watches that read an event from the history share its encoding as well.
func TestReplayedOnceAFormat(t *testing.T) {
	f := newFixture(t, Options{})
	writer, _ := podStorage(t, f)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	if err := writer.Create(t.Context(), "/pods/ns/p", pod, nil, 0); err != nil {
		t.Fatal(err)
	}
	moved := move(t, writer, "/pods/ns/p", "n2")
	// Another storage of the same keys has nothing that the writer left.
	s, _ := podStorage(t, f)
	const each = 20
	var objects [2][each]runtime.Object
	var watches [each]watch.Interface
	for i := range watches {
		w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "1", Predicate: onNode("n1"), Recursive: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		watches[i] = w
		if i+1 < sharedFrom {
			continue // the first ones do not share
		}
		for n, kind := range []watch.EventType{watch.Added, watch.Deleted} {
			e := next(t, w)
			if e.Type != kind {
				t.Fatalf("got %s, want %s", e.Type, kind)
			}
			objects[n][i] = e.Object
		}
	}
	for n, version := range []string{"2", moved} {
		encoder := &countingEncoder{id: "json"}
		for _, obj := range objects[n][sharedFrom-1:] {
			var b bytes.Buffer
			if err := encoder.Encode(obj, &b); err != nil || b.String() != "json p of "+version {
				t.Errorf("encoded %q, %v", b.String(), err)
			}
		}
		if got := encoder.count.Load(); got != 1 {
			t.Errorf("event %d was encoded %d times", n, got)
		}
	}
}

// Watches of equal selectors have each event looked at once; others, and those that come later, are not mixed up.
func TestSelectedOnceASelector(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	var looks atomic.Int64
	attrs := func(obj runtime.Object) (labels.Set, fields.Set, error) {
		looks.Add(1)
		pod := obj.(*corev1.Pod)
		return pod.Labels, fields.Set{"metadata.name": pod.Name}, nil
	}
	const selectors, each, pods = 3, 40, 30
	var wg sync.WaitGroup
	for n := range selectors {
		p := storage.SelectionPredicate{Label: labels.SelectorFromSet(labels.Set{"n": fmt.Sprint(n)}), Field: fields.Everything(), GetAttrs: attrs}
		for range each {
			w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "1", Predicate: p, Recursive: true})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer w.Stop()
				for i := n; i < pods; i += selectors {
					if e := next(t, w); e.Type != watch.Added || plain(e.Object).(*corev1.Pod).Name != fmt.Sprintf("p%d", i) {
						t.Errorf("selector %d got %s %+v, want p%d", n, e.Type, e.Object, i)
					}
				}
			})
		}
	}
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i), Namespace: "ns", Labels: map[string]string{"n": fmt.Sprint(i % selectors)}}}
		if err := s.Create(context.Background(), "/pods/ns/"+pod.Name, pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	// The last events come when the watches of some selectors have seen all of theirs.
	if n := looks.Load(); n > selectors*pods || n < selectors*(pods-selectors) {
		t.Errorf("%d looks at %d objects for %d selectors", n, pods, selectors)
	}
	s.Destroy()
	if len(s.selections) != 0 || s.encoded.Load() != 0 {
		t.Errorf("%d selections and %d watches are left", len(s.selections), s.encoded.Load())
	}
}

// plain is the object itself where watches share it.
func plain(obj runtime.Object) runtime.Object {
	if shared, ok := obj.(runtime.CacheableObject); ok {
		return shared.GetObject()
	}
	return obj
}
