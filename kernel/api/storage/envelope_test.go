package storage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
)

// storedKinds are the kinds of client-go's scheme that could be stored in protobuf.
func storedKinds() (kinds []schema.GroupVersionKind) {
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		obj, ok := reflect.New(typ).Interface().(sizedMarshaler)
		if !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		if _, err := meta.Accessor(obj); err == nil {
			kinds = append(kinds, gvk)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// codecFor stores in protobuf, in one version.
func codecFor(t testing.TB, gv schema.GroupVersion) runtime.Codec {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no protobuf")
	}
	return scheme.Codecs.CodecForVersions(info.Serializer, info.Serializer, gv, gv)
}

// filler sets fields at random.
type filler struct{ *rand.Rand }

func (f filler) text() string {
	n := f.IntN(12)
	if f.IntN(40) == 0 {
		n = f.IntN(400) // lengths of two bytes
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + f.IntN(26))
	}
	return string(b)
}

func (f filler) fill(v reflect.Value, depth int) {
	if !v.CanSet() || depth > 14 {
		return
	}
	switch v.Addr().Interface().(type) {
	case *metav1.Time:
		v.Set(reflect.ValueOf(metav1.Unix(f.Int64N(1<<32), 0)))
		return
	case *metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.UnixMicro(f.Int64N(1 << 50)))))
		return
	case *resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(f.Int64N(1<<40), resource.DecimalSI)))
		return
	case *metav1.FieldsV1:
		v.Set(reflect.ValueOf(*metav1.NewFieldsV1(`{"f:` + f.text() + `":{}}`)))
		return
	case *runtime.RawExtension:
		v.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(strconv.Quote(f.text()))}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(f.Int64N(1 << 7))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.Uint64N(1 << 7))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(f.Float64())
	case reflect.Pointer:
		if f.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if n := f.IntN(3); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth+1)
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	}
}

// random is an object of a kind, as it comes to the storage: without kind and resource version.
func random(t testing.TB, gvk schema.GroupVersionKind, seed uint64) runtime.Object {
	t.Helper()
	obj, err := scheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	filler{rand.New(rand.NewPCG(seed, 1))}.fill(reflect.ValueOf(obj).Elem(), 0)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if err := (storage.APIObjectVersioner{}).PrepareObjectForStorage(obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// checkEnvelope compares with what the codec says of an object, without and with a resource version.
func checkEnvelope(t *testing.T, gvk schema.GroupVersionKind, seed, version uint64) {
	t.Helper()
	codec, obj := codecFor(t, gvk.GroupVersion()), random(t, gvk, seed)
	empty, err := scheme.Scheme.New(gvk)
	if err != nil {
		t.Fatal(err)
	}
	e := envelopeOf(codec, empty)
	if e == nil {
		t.Fatalf("%s: no envelope", gvk)
	}
	data, ok := e.encode(obj)
	if want := must(runtime.Encode(codec, obj)); !ok || !bytes.Equal(data, want) {
		t.Fatalf("%s, seed %d: encoded %t\n%q, want\n%q", gvk, seed, ok, data, want)
	}
	got, ok := e.versioned(data, version)
	if version == 0 {
		if ok {
			t.Errorf("%s: resource version 0", gvk)
		}
		return
	}
	if err := (storage.APIObjectVersioner{}).UpdateObject(obj, version); err != nil {
		t.Fatal(err)
	}
	if want := must(runtime.Encode(codec, obj)); !ok || !bytes.Equal(got, want) {
		t.Fatalf("%s, seed %d, version %d: %t\n%q, want\n%q", gvk, seed, version, ok, got, want)
	}
	if _, ok := e.versioned(got, version); ok {
		t.Errorf("%s: a second resource version", gvk)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Objects of all kinds are encoded as the codec does it, and get a resource version as if they had had it before.
func TestEnvelope(t *testing.T) {
	kinds := storedKinds()
	if len(kinds) < 60 {
		t.Fatalf("only %d kinds", len(kinds))
	}
	for i, gvk := range kinds {
		if strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		for seed := range uint64(20) {
			checkEnvelope(t, gvk, seed, 1<<(3*seed)+uint64(i))
		}
	}
}

func FuzzEnvelope(f *testing.F) {
	kinds := storedKinds()
	f.Add(uint64(0), uint64(0), uint(0))
	f.Add(uint64(0), uint64(1), uint(0))
	f.Add(uint64(7), uint64(1)<<63, uint(9))
	f.Fuzz(func(t *testing.T, seed, version uint64, kind uint) {
		checkEnvelope(t, kinds[kind%uint(len(kinds))], seed, version)
	})
}

// FuzzVersioned: what is no encoding of an object gets no resource version, and what is one stays the same otherwise.
func FuzzVersioned(f *testing.F) {
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	codec := codecFor(f, corev1.SchemeGroupVersion)
	e := envelopeOf(codec, &corev1.Pod{})
	for seed := range uint64(5) {
		data, _ := e.encode(random(f, gvk, seed))
		f.Add(data, seed)
		f.Add(data[:len(data)/2], seed)
	}
	f.Fuzz(func(t *testing.T, data []byte, version uint64) {
		out, ok := e.versioned(data, version)
		if !ok {
			return
		}
		was, err := runtime.Decode(codec, data)
		if err != nil {
			return // nothing that the storage wrote
		}
		is, err := runtime.Decode(codec, out)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, out, err)
		}
		if meta := must(meta.Accessor(was)); meta.GetResourceVersion() == "" {
			meta.SetResourceVersion(strconv.FormatUint(version, 10))
		}
		if !apiequality.Semantic.DeepEqual(is, was) {
			t.Errorf("%q became %q:\n%+v, not\n%+v", data, out, is, was)
		}
	})
}

// Kinds of another form than that of the codec's are left to it.
func TestNoEnvelope(t *testing.T) {
	for name, c := range map[string]struct {
		codec runtime.Codec
		empty runtime.Object
	}{
		"JSON":            {scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), &corev1.Pod{}},
		"another version": {codecFor(t, schema.GroupVersion{Group: "apps", Version: "v1"}), &corev1.Pod{}},
		"no object":       {codecFor(t, corev1.SchemeGroupVersion), &metav1.Status{}},
	} {
		if e := envelopeOf(c.codec, c.empty); e != nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
	e := envelopeOf(codecFor(t, corev1.SchemeGroupVersion), &corev1.Pod{})
	if _, ok := e.encode(&corev1.Node{}); ok {
		t.Error("a node in the envelope of pods")
	}
}

// eventEncoder is one of watch events, as k8s.io/apiserver has it: around the object's encoding it puts the type.
type eventEncoder struct {
	object runtime.Encoder
	asks   int // of objects that the codec had to encode
}

func (e *eventEncoder) encode(event watch.Event) (out []byte, err error) {
	id := must(json.Marshal(struct {
		Name            string `json:"name,omitempty"`
		EmbeddedEncoder string `json:"embeddedEncoder,omitempty"`
		Encoder         string `json:"encoder,omitempty"`
		EventType       string `json:"eventType,omitempty"`
	}{"watch", string(e.object.Identifier()), "framed", string(event.Type)}))
	var b bytes.Buffer
	encode := func(obj runtime.Object, w *bytes.Buffer) error {
		fmt.Fprintf(w, "%s ", event.Type)
		if _, ok := obj.(runtime.CacheableObject); !ok {
			e.asks++
		}
		return e.object.Encode(obj, w)
	}
	shared, ok := event.Object.(runtime.CacheableObject)
	if !ok {
		return nil, fmt.Errorf("a %T is sent", event.Object)
	}
	err = shared.CacheEncode(runtime.Identifier(id), func(obj runtime.Object, w io.Writer) error { return encode(obj, w.(*bytes.Buffer)) }, &b)
	return b.Bytes(), err
}

// What a watch sends of a write is what the object's encoding is, whether that is made or is the one in the store.
func TestWatchSendsWhatIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		write  func(t *testing.T, s *Storage) error
		object runtime.Encoder // nil: the storage's own
		asks   int
	}{
		"replaced": {write: replaceName, asks: 0},
		"given": {write: func(t *testing.T, s *Storage) error {
			return s.Create(WithGivenObject(t.Context(), func(runtime.Object) {}), "/pods/ns/given", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "given", Namespace: "ns"}}, nil, 0)
		}},
		"many": {write: func(t *testing.T, s *Storage) error {
			return s.CreateAll(t.Context(), 1, func(int) (string, runtime.Object, error) {
				return "/pods/ns/many", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "many", Namespace: "ns"}}, nil
			}, 0)[0]
		}},
		"created": {asks: 1, write: func(t *testing.T, s *Storage) error { // decoding could have set defaults
			return s.Create(t.Context(), "/pods/ns/q", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "ns"}}, nil, 0)
		}},
		"updated": {asks: 1, write: func(t *testing.T, s *Storage) error {
			move(t, s, "/pods/ns/p", "n2")
			return nil
		}},
		"deleted": {asks: 1, write: func(t *testing.T, s *Storage) error {
			return s.Delete(t.Context(), "/pods/ns/p", &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		}},
		"as JSON": {write: replaceName, object: scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion), asks: 1},
	} {
		for _, n := range []int{1, sharedFrom} { // watches that share nothing, and some that do
			if n < sharedFrom && c.asks > 0 && c.object == nil {
				continue // the object itself is sent
			}
			t.Run(fmt.Sprintf("%s, %d watches", name, n), func(t *testing.T) {
				f := newFixture(t, Options{})
				s, _ := podStorage(t, f)
				if err := s.Create(t.Context(), "/pods/ns/p", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}, nil, 0); err != nil {
					t.Fatal(err)
				}
				watches := make([]watch.Interface, n)
				for i := range watches {
					watches[i] = must(s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "2", Predicate: storage.Everything, Recursive: true}))
					defer watches[i].Stop()
				}
				if err := c.write(t, s); err != nil {
					t.Fatal(err)
				}
				object := c.object
				if object == nil {
					object = s.codec
				}
				encoder := &eventEncoder{object: object}
				for _, w := range watches {
					event := next(t, w)
					got, err := encoder.encode(event)
					if err != nil {
						t.Fatal(err)
					}
					want := append([]byte(string(event.Type)+" "), must(runtime.Encode(object, plain(event.Object)))...)
					if !bytes.Equal(got, want) {
						t.Errorf("sent\n%q, want\n%q", got, want)
					}
					if v := must(meta.Accessor(plain(event.Object))).GetResourceVersion(); v != "3" {
						t.Errorf("resource version %s", v)
					}
				}
				if encoder.asks != c.asks {
					t.Errorf("the codec was asked %d times, want %d", encoder.asks, c.asks)
				}
			})
		}
	}
}

func replaceName(t *testing.T, s *Storage) error {
	return s.Replace(t.Context(), "/pods/ns/p", nil, func(obj runtime.Object) (runtime.Object, error) {
		pod := *obj.(*corev1.Pod)
		pod.Spec.NodeName = "n1"
		return &pod, nil
	})
}
