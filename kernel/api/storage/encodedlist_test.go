package storage

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/storage"
)

// podLists is how pods are listed in one format: with encoded items, and as k8s.io/apimachinery encodes the list type.
type podLists struct {
	mediaType string
	encoder   runtime.Encoder
}

func newPodLists(t testing.TB, mediaType string) podLists {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme,
		serializer.WithStreamingCollectionEncodingToJSON(), serializer.WithStreamingCollectionEncodingToProtobuf())
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no serializer for %s", mediaType)
	}
	return podLists{mediaType, codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)}
}

func newPodList() runtime.Object { return &corev1.PodList{} }

// encoded gives an empty list for encoded items.
func (l podLists) encoded() *EncodedList {
	return NewEncodedList(corev1.SchemeGroupVersion.WithKind("PodList"), l.mediaType, l.encoder.Identifier(), newPodList)
}

// write gives what the encoder makes of list.
func (l podLists) write(t testing.TB, list runtime.Object) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := l.encoder.Encode(list, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func fillPods(t testing.TB, s *Storage, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("p%04d", i)
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "u", Labels: map[string]string{"odd": fmt.Sprint(i%2 == 1)}},
			Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Args: []string{"<a&b>", "é"}}}},
		}
		if err := s.Create(t.Context(), "/pods/ns/"+name, pod, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// API-LIST: a list of encoded items is byte for byte what the encoder of its format writes of the list type: whole,
// selected, in pages, empty, and after its objects have changed.
func TestEncodedListIsTheList(t *testing.T) {
	f := newFixture(t, Options{})
	s, codec := podStorage(t, f)
	fillPods(t, s, 300) // more than one piece of what is written at once
	odd := onNode("n1")
	odd.Label = labels.SelectorFromSet(labels.Set{"odd": "true"})
	page := storage.Everything
	page.Limit = 7
	none := onNode("n2")
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		lists := newPodLists(t, mediaType)
		check := func(name, path string, p storage.SelectionPredicate, recursive bool) string {
			t.Helper()
			opts := storage.ListOptions{Predicate: p, Recursive: recursive}
			plain, got := &corev1.PodList{}, lists.encoded()
			for _, list := range []runtime.Object{plain, got} {
				if err := s.GetList(t.Context(), path, opts, list); err != nil {
					t.Fatal(err)
				}
			}
			if want, is := lists.write(t, plain), lists.write(t, got); !bytes.Equal(want, is) {
				t.Errorf("%s as %s: %d items give\n%q\nwant\n%q", name, mediaType, len(plain.Items), cut(is), cut(want))
			}
			if decoded := lists.write(t, got.GetObject()); !bytes.Equal(decoded, lists.write(t, plain)) {
				t.Errorf("%s as %s: the list type made of encoded items is another", name, mediaType)
			}
			return got.Continue
		}
		for range 2 { // the second time from what is kept
			check("all", "/pods", storage.Everything, true)
			check("selected", "/pods", odd, true)
			check("none", "/pods", none, true)
			check("one", "/pods/ns/p0003", storage.Everything, false)
			next := page
			next.Continue = check("page", "/pods", page, true)
			check("second page", "/pods", next, true)
		}
		before := codec.decodes.Load()
		move(t, s, "/pods/ns/p0005", "n-"+fmt.Sprint(len(mediaType)))
		check("changed", "/pods", storage.Everything, true)
		if err := s.Delete(t.Context(), "/pods/ns/p0007", &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err == nil {
			check("deleted", "/pods", storage.Everything, true)
		}
		if n := codec.decodes.Load() - before; n > 3 {
			t.Errorf("%d objects were decoded after two changes", n)
		}
	}
}

func cut(b []byte) []byte { return b[:min(len(b), 600)] }

// An encoder that the list was not made for gets the list type.
func TestEncodedListForAnotherEncoder(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	fillPods(t, s, 3)
	for _, mediaType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		lists := newPodLists(t, mediaType)
		list := lists.encoded()
		if err := s.GetList(t.Context(), "/pods", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
			t.Fatal(err)
		}
		var got *corev1.PodList
		if err := list.CacheEncode("another", func(obj runtime.Object, _ io.Writer) error {
			got, _ = obj.(*corev1.PodList)
			return nil
		}, io.Discard); err != nil {
			t.Fatal(err)
		}
		if got == nil || len(got.Items) != 3 || got.ResourceVersion != list.ResourceVersion || got.Items[2].Name != "p0002" || got.Items[2].ResourceVersion == "" {
			t.Errorf("%s: got %+v", mediaType, got)
		}
	}
}

// What lists keep is bounded, and goes when there were none for a while.
func TestEncodingsAreBoundedAndDropped(t *testing.T) {
	const limit = 20 << 10
	f := newFixture(t, Options{EncodingBytes: limit, EncodingIdle: 50 * time.Millisecond})
	s, _ := podStorage(t, f)
	fillPods(t, s, 200)
	lists := newPodLists(t, runtime.ContentTypeJSON)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				list := lists.encoded()
				if err := s.GetList(t.Context(), "/pods", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil || len(list.items) != 200 {
					t.Errorf("got %d items, %v", len(list.items), err)
				}
			}
		})
	}
	wg.Wait()
	if used := f.backend.encodings.used.Load(); used > limit {
		t.Errorf("%d bytes are kept, at most %d may be", used, limit)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for f.backend.encodings.used.Load() != 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still kept", f.backend.encodings.used.Load())
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.encodings.mu.RLock()
	defer s.encodings.mu.RUnlock()
	if len(s.encodings.items) != 0 || s.encodings.timer != nil {
		t.Errorf("%d items are still kept", len(s.encodings.items))
	}
}
