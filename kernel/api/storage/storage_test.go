package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/store"
)

// countingCodec counts decodes.
type countingCodec struct {
	runtime.Codec
	decodes atomic.Int64
}

func (c *countingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	c.decodes.Add(1)
	return c.Codec.Decode(data, defaults, into)
}

// podStorage is a storage of core/v1 pods, whose only type is the versioned one, with the trigger of its node's name.
func podStorage(t testing.TB, f *fixture) (*Storage, *countingCodec) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	internal := schema.GroupVersion{Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &corev1.Pod{}, &corev1.PodList{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	options := f.backend.RESTOptionsGetter(f.backend.NewFactory(scheme, serializer.NewCodecFactory(scheme), runtime.ContentTypeProtobuf))
	rest, err := options.GetRESTOptions(schema.GroupResource{Resource: "pods"}, &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	codec := &countingCodec{Codec: rest.StorageConfig.Codec}
	rest.StorageConfig.Codec = codec
	s, destroy, err := rest.Decorator(rest.StorageConfig, "/"+rest.ResourcePrefix, nil,
		func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.PodList{} }, nil,
		storage.IndexerFuncs{"spec.nodeName": func(obj runtime.Object) string { return obj.(*corev1.Pod).Spec.NodeName }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	return s.(*Storage), codec
}

func onNode(name string) storage.SelectionPredicate {
	return storage.SelectionPredicate{
		Label: labels.Everything(),
		Field: fields.OneTermEqualSelector("spec.nodeName", name),
		GetAttrs: func(obj runtime.Object) (labels.Set, fields.Set, error) {
			pod := obj.(*corev1.Pod)
			return labels.Set(pod.Labels), fields.Set{"spec.nodeName": pod.Spec.NodeName}, nil
		},
	}
}

func move(t *testing.T, s *Storage, key, node string) string {
	t.Helper()
	out := &corev1.Pod{}
	err := s.GuaranteedUpdate(t.Context(), key, out, false, nil, storage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
		obj.(*corev1.Pod).Spec.NodeName = node
		return obj, nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	return out.ResourceVersion
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch has ended")
		}
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("no event")
	}
	panic("unreachable")
}

// A watch selected by a trigger field sees objects come into and go out of its sight, live and replayed alike, and the
// resource version of what went is that of the event.
func TestWatchByTriggerField(t *testing.T) {
	f := newFixture(t, Options{})
	s, _ := podStorage(t, f)
	const key = "/pods/ns/p"
	created := &corev1.Pod{}
	if err := s.Create(t.Context(), key, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}, created, 0); err != nil {
		t.Fatal(err)
	}
	start := func(node string) watch.Interface {
		w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{
			ResourceVersion: created.ResourceVersion, Predicate: onNode(node), Recursive: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	live := map[string]watch.Interface{"n1": start("n1"), "n2": start("n2"), "n3": start("n3")}
	bound := move(t, s, key, "n1")
	moved := move(t, s, key, "n2")
	if err := s.Delete(t.Context(), key, &corev1.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	deleted := fmt.Sprint(f.store.CurrentRevision())
	// Another storage of the same keys has nothing decoded.
	other, _ := podStorage(t, f)
	s = other
	for name, watches := range map[string]map[string]watch.Interface{
		"live": live, "replayed": {"n1": start("n1"), "n2": start("n2"), "n3": start("n3")},
	} {
		expect := func(node string, kind watch.EventType, version, on string) {
			t.Helper()
			e := next(t, watches[node])
			pod, ok := plain(e.Object).(*corev1.Pod)
			if !ok || e.Type != kind || pod.ResourceVersion != version || pod.Spec.NodeName != on {
				t.Errorf("%s, %s: got %s %+v, want %s at %s on %s", name, node, e.Type, e.Object, kind, version, on)
			}
		}
		expect("n1", watch.Added, bound, "n1")
		expect("n1", watch.Deleted, moved, "n1")
		expect("n2", watch.Added, moved, "n2")
		expect("n2", watch.Deleted, deleted, "n2")
		if n := len(watches["n3"].ResultChan()); n != 0 {
			t.Errorf("%s: a node without the pod has %d events", name, n)
		}
	}
}

// An object is decoded by the request that writes it and by nobody after that.
func TestDecodedOnceForAll(t *testing.T) {
	f := newFixture(t, Options{})
	s, codec := podStorage(t, f)
	var watches []watch.Interface
	for range 20 {
		w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
	if err := s.Create(t.Context(), "/pods/ns/p", pod, &corev1.Pod{}, 0); err != nil {
		t.Fatal(err)
	}
	var first runtime.Object
	for _, w := range watches {
		e := next(t, w)
		shared, ok := e.Object.(runtime.CacheableObject)
		if e.Type != watch.Added || !ok || first != nil && e.Object != first {
			t.Errorf("got %+v; all watches share one object", e)
			continue
		}
		if shared.GetObject() == shared.GetObject() {
			t.Error("every reader needs its own top-level object")
		}
		first = e.Object
	}
	out, list := &corev1.Pod{}, &corev1.PodList{}
	if err := errors.Join(
		s.Get(t.Context(), "/pods/ns/p", storage.GetOptions{}, out),
		s.GetList(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true}, list),
	); err != nil {
		t.Fatal(err)
	}
	if n := codec.decodes.Load(); n != 1 || len(list.Items) != 1 {
		t.Errorf("%d decodes, %d items", n, len(list.Items))
	}
	// What Get returns is the caller's.
	out.Labels = map[string]string{"changed": "yes"}
	again := &corev1.Pod{}
	if err := s.Get(t.Context(), "/pods/ns/p", storage.GetOptions{}, again); err != nil || again.Labels != nil {
		t.Errorf("a caller changed the cached object: %v, %v", again.Labels, err)
	}
}

// After a rest what is there is decoded again, by reads and by watches that start before it.
func TestRest(t *testing.T) {
	f := newFixture(t, Options{})
	s, codec := podStorage(t, f)
	const key = "/pods/ns/p"
	created := &corev1.Pod{}
	if err := s.Create(t.Context(), key, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}, created, 0); err != nil {
		t.Fatal(err)
	}
	moved := move(t, s, key, "n1")
	if used := f.backend.budget.used.Load(); used == 0 {
		t.Error("nothing was kept before the rest")
	}
	f.backend.Rest()
	if used := f.backend.budget.used.Load(); used != 0 {
		t.Errorf("%d bytes are kept at rest", used)
	}
	before := codec.decodes.Load()
	out := &corev1.Pod{}
	if err := s.Get(t.Context(), key, storage.GetOptions{}, out); err != nil || out.ResourceVersion != moved || out.Spec.NodeName != "n1" {
		t.Errorf("got %v %+v", err, out)
	}
	w, err := s.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: created.ResourceVersion, Predicate: onNode("n1"), Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := next(t, w); e.Type != watch.Added || plain(e.Object).(*corev1.Pod).ResourceVersion != moved {
		t.Errorf("got %s %+v", e.Type, e.Object)
	}
	if codec.decodes.Load() == before {
		t.Error("nothing was decoded again")
	}
}

func TestCompactedWatch(t *testing.T) {
	f := newFixture(t, Options{})
	for range 5 {
		f.increaseRV(t.Context(), t)
	}
	f.compact(t.Context(), t, "4")
	w, err := f.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "2", Predicate: storage.Everything, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	e := next(t, w)
	status, ok := e.Object.(*metav1.Status)
	if !ok || e.Type != watch.Error || status.Code != 410 || status.Reason != metav1.StatusReasonExpired || status.Message != "too old resource version: 2 (4)" {
		t.Errorf("got %s %+v", e.Type, e.Object)
	}
	if _, open := <-w.ResultChan(); open {
		t.Error("the watch goes on after its error")
	}
}

// Custom resources: unstructured objects through the options that apiextensions-apiserver takes.
func TestCustomResources(t *testing.T) {
	f := newFixture(t, Options{})
	gr := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	rest, err := f.backend.CRDRESTOptionsGetter().GetRESTOptions(gr, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := func() *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("example.com/v1")
		u.SetKind("Widget")
		return u
	}
	s, destroy, err := rest.Decorator(rest.StorageConfig, "/"+rest.ResourcePrefix, nil,
		func() runtime.Object { return empty() }, func() runtime.Object { return &unstructured.UnstructuredList{} }, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer destroy()
	w, err := s.Watch(t.Context(), "/example.com/widgets", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	in, out := empty(), empty()
	in.SetName("w")
	in.SetNamespace("ns")
	in.Object["spec"] = map[string]any{"size": int64(3)}
	if err := s.Create(t.Context(), "/example.com/widgets/ns/w", in, out, 0); err != nil {
		t.Fatal(err)
	}
	if kv, _, err := f.store.Get("/registry/example.com/widgets/ns/w"); err != nil || kv.Value[0] != '{' {
		t.Errorf("stored %s, %v", kv.Value, err)
	}
	e := next(t, w)
	e.Object.(*unstructured.Unstructured).SetKind("Changed") // as an encoder may
	list := &unstructured.UnstructuredList{}
	if err := s.GetList(t.Context(), "/example.com/widgets", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].GetKind() != "Widget" || list.Items[0].GetResourceVersion() != out.GetResourceVersion() {
		t.Errorf("list %+v, created %+v", list.Items, out)
	}
	if err := s.Delete(t.Context(), "/example.com/widgets/ns/w", empty(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := next(t, w); e.Type != watch.Deleted || e.Object.(*unstructured.Unstructured).GetResourceVersion() != fmt.Sprint(f.store.CurrentRevision()) {
		t.Errorf("got %s %+v", e.Type, e.Object)
	}
}

// The cache stays within its budget and gives everything back.
func TestCacheBudget(t *testing.T) {
	budget := &cacheBudget{max: 10_000}
	c := newObjectCache(budget, nil)
	for i := range 100 {
		c.put(fmt.Sprint(i), 5, &corev1.Pod{}, 1000)
		if used := budget.used.Load(); used > budget.max {
			t.Fatalf("%d bytes of %d used", used, budget.max)
		}
	}
	c.clear()
	c.put("k", 5, &corev1.Pod{}, 1000)
	c.put("k", 4, nil, 1000)
	if _, ok := c.get("k", 5); !ok {
		t.Error("an older object replaced a newer one")
	}
	c.drop("k")
	if used := budget.used.Load(); used != 0 {
		t.Errorf("%d bytes used by nothing", used)
	}
}

func TestDiskErrorIsSaid(t *testing.T) {
	err := commitError(&store.DiskError{Dir: "/data", ReadOnly: true})
	if !apierrors.IsInternalError(err) || err.Error() != "Internal error occurred: data directory /data is on a read-only file system: remount it writable" {
		t.Errorf("got %v", err)
	}
	if err := commitError(store.ErrClosed); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

// What the store found damaged is a corrupt object, where those may be deleted.
func TestDamageIsCorrupt(t *testing.T) {
	damage := fmt.Errorf("reading: %w", &store.CorruptError{Dir: "/data", File: "000001.sst", Key: "/registry/pods/ns/p", Err: errors.New("checksum")})
	for _, allowed := range []bool{false, true} {
		s := &Storage{unsafeDeletes: allowed}
		if _, corrupt := asCorrupt(s.marked(damage), 5); corrupt != allowed {
			t.Errorf("unsafe deletes %t: corrupt %t", allowed, corrupt)
		}
		if _, corrupt := asCorrupt(s.marked(store.ErrClosed), 5); corrupt {
			t.Error("a closed store is no corrupt object")
		}
	}
}

// Whatever a client sends as a continue token, it gets a list below its prefix or an error of its own making.
func FuzzContinue(f *testing.F) {
	fix := newFixture(f, Options{})
	s, _ := podStorage(f, fix)
	for _, name := range []string{"a", "b", "c"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
		if err := s.Create(context.Background(), "/pods/ns/"+name, pod, nil, 0); err != nil {
			f.Fatal(err)
		}
	}
	for _, revision := range []int64{-1, 1, 3, 99} {
		token, err := storage.EncodeContinue("/registry/pods/ns/a\x00", "/registry/pods/", revision)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(token)
	}
	f.Add("eyJ2Ijoi")
	f.Fuzz(func(t *testing.T, token string) {
		list := &corev1.PodList{}
		err := s.GetList(context.Background(), "/pods", storage.ListOptions{
			Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: 2, Continue: token},
		}, list)
		var status apierrors.APIStatus
		if err != nil && (!errors.As(err, &status) || status.Status().Code >= 500 && !storage.IsTooLargeResourceVersion(err)) {
			t.Errorf("token %q: %v", token, err)
		}
		if len(list.Items) > 2 {
			t.Errorf("token %q: %d items", token, len(list.Items))
		}
	})
}

func examplePod(i int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%09d", i), Namespace: "ns", UID: "u", Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "registry/image:tag", Env: []corev1.EnvVar{{Name: "A", Value: "B"}},
		}}},
	}
}

func BenchmarkCreate(b *testing.B) {
	f := newFixture(b, Options{})
	s, _ := podStorage(b, f)
	w, err := s.Watch(context.Background(), "/pods", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	go func() {
		for range w.ResultChan() {
		}
	}()
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 32 {
		wg.Go(func() {
			for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
				pod := examplePod(i)
				if err := s.Create(context.Background(), "/pods/ns/"+pod.Name, pod, &corev1.Pod{}, 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}

func BenchmarkList5000(b *testing.B) {
	f := newFixture(b, Options{})
	s, _ := podStorage(b, f)
	var wg sync.WaitGroup
	for w := range int64(50) {
		wg.Go(func() {
			for i := range int64(100) {
				pod := examplePod(w*100 + i)
				if err := s.Create(context.Background(), "/pods/ns/"+pod.Name, pod, nil, 0); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportAllocs()
	for b.Loop() {
		list := &corev1.PodList{}
		if err := s.GetList(context.Background(), "/pods", storage.ListOptions{ResourceVersion: "0", Predicate: storage.Everything, Recursive: true}, list); err != nil || len(list.Items) != 5000 {
			b.Fatal(err, len(list.Items))
		}
	}
}
