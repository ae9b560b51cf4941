package resourcequota

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/sdk/controller"
)

// RQC-11, RQC-12: a status is written at first sight and when usage differs,
// and not again.
func TestSync(t *testing.T) {
	hard := corev1.ResourceList{"pods": resource.MustParse("10"), "secrets": resource.MustParse("5")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "ns"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	client := fake.NewClientset(quota)
	q := newController(&controller.Context{
		Logger: slog.New(slog.DiscardHandler), Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
	}, metadataOf(t, partial(corev1.SchemeGroupVersion.WithKind("Secret"), "s")), nil)
	defer q.loop.Close()
	add := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	add(q.informer.GetStore().Add(quota))
	add(q.watched["pods"].GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}))
	key := cache.ObjectName{Namespace: "ns", Name: "q"}
	for range 2 {
		client.ClearActions()
		if err := q.sync(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		written, err := client.CoreV1().ResourceQuotas("ns").Get(t.Context(), "q", metav1.GetOptions{})
		add(err)
		if p, s := written.Status.Used["pods"], written.Status.Used["secrets"]; p.Value() != 1 || s.Value() != 1 || len(written.Status.Hard) != 2 {
			t.Fatalf("status %+v", written.Status)
		}
		add(q.informer.GetStore().Update(written))
	}
	for _, a := range client.Actions() {
		if a.GetVerb() == "update" {
			t.Error("written again without a difference")
		}
	}
}

// partial is an object of namespace ns as metadata.
func partial(gvk schema.GroupVersionKind, name string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	o.SetGroupVersionKind(gvk)
	return o
}

func metadataOf(t *testing.T, objects ...runtime.Object) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, objects...)
}

// RQC-8: secrets, claims and kinds of count/ names are given back when they
// are deleted, also those that went while nobody watched; what no quota limits
// is not watched, and the controller ends all that it started.
func TestReplenish(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget := widgets.GroupVersion().WithKind("Widget")
	hard := corev1.ResourceList{"secrets": resource.MustParse("5"), "count/widgets.example.com": resource.MustParse("5")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "ns"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	client := fake.NewClientset(quota)
	objects := metadataOf(t, partial(widget, "w"), partial(corev1.SchemeGroupVersion.WithKind("Secret"), "s"))
	mapper := &served{apimeta.NewDefaultRESTMapper(nil)}
	mapper.Add(widget, apimeta.RESTScopeNamespace)
	shared := informers.NewSharedInformerFactory(client, 0)
	q := newController(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: shared}, objects, mapper)
	shared.Start(ctx.Done())
	defer shared.Shutdown()
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx) }()
	await := func(secrets, widgets int64) {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for {
			got, err := client.CoreV1().ResourceQuotas("ns").Get(ctx, "q", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s, w := got.Status.Used["secrets"], got.Status.Used["count/widgets.example.com"]
			if len(got.Status.Used) == 2 && s.Value() == secrets && w.Value() == widgets {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("used %v, want %d secrets and %d widgets", got.Status.Used, secrets, widgets)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	watched := func(resource string) bool {
		for _, a := range objects.Actions() {
			if a.GetVerb() == "watch" && a.GetResource().Resource == resource {
				return true
			}
		}
		return false
	}
	await(1, 1)
	for deadline := time.Now().Add(2 * time.Minute); !watched("secrets") || !watched("widgets"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("secrets and widgets are not watched")
		}
	}
	if watched("persistentvolumeclaims") {
		t.Error("claims are watched, which no quota limits")
	}
	if err := objects.Resource(widgets).Namespace("ns").Delete(ctx, "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(1, 0)
	if err := objects.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace("ns").Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(0, 0)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// served is a mapper of what the test serves.
type served struct{ *apimeta.DefaultRESTMapper }

func (*served) Reset() {}

// After a break in the watch, the namespaces that lost objects are told.
func TestReplaced(t *testing.T) {
	object := func(ns, name string) any {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	}
	for name, tc := range map[string]struct {
		updates bool
		want    string
	}{"deleted only": {false, ",a"}, "updates count": {true, ",a,b"}} {
		t.Run(name, func(t *testing.T) {
			var freed []string
			r := &replenishment{freed: func(ns string) { freed = append(freed, ns) }, updates: tc.updates}
			if err := r.Replace([]any{object("a", "1"), object("a", "2"), object("b", "1")}, "1"); err != nil {
				t.Fatal(err)
			}
			if err := r.Replace([]any{object("a", "2"), object("b", "1"), object("c", "1")}, "2"); err != nil {
				t.Fatal(err)
			}
			slices.Sort(freed)
			if got := strings.Join(freed, ","); got != tc.want {
				t.Errorf("told of %q, want %q", got, tc.want)
			}
		})
	}
}
