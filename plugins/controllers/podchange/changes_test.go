package podchange

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// EPC-5, EPC-6: which services are told of a change of a pod.
func TestChanges(t *testing.T) {
	pod := func(version, app, ip string, annotations map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", ResourceVersion: version, Labels: map[string]string{"app": app}, Annotations: annotations}}
		if ip != "" {
			p.Status.PodIPs = []corev1.PodIP{{IP: ip}}
		}
		return p
	}
	services := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, app := range []string{"web", "store"} {
		if err := services.Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: app}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": app}}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		change func(cache.ResourceEventHandler)
		want   []string
	}{
		"added":   {func(h cache.ResourceEventHandler) { h.OnAdd(pod("1", "web", "", nil), false) }, []string{"ns/web"}},
		"deleted": {func(h cache.ResourceEventHandler) { h.OnDelete(pod("1", "web", "", nil)) }, []string{"ns/web"}},
		"deleted unseen": {func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: pod("1", "web", "", nil)})
		}, []string{"ns/web"}},
		"has an address now": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(pod("1", "web", "", nil), pod("2", "web", "10.0.0.1", nil))
		}, []string{"ns/web"}},
		"moved to another": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(pod("1", "web", "", nil), pod("2", "store", "", nil))
		}, []string{"ns/store", "ns/web"}},
		"an annotation": {func(h cache.ResourceEventHandler) {
			h.OnUpdate(pod("1", "web", "", nil), pod("2", "web", "", map[string]string{"a": "b"}))
		}, nil},
		"of no service": {func(h cache.ResourceEventHandler) { h.OnAdd(pod("1", "other", "", nil), false) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t)
			var mu sync.Mutex
			told, seen := map[string]bool{}, make(chan struct{}, 10)
			c := New(slog.New(slog.DiscardHandler), "pods", 1, 3, corelisters.NewServiceLister(services), func(service string) {
				mu.Lock()
				defer mu.Unlock()
				told[service] = true
				seen <- struct{}{}
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); c.Run(ctx) }()
			tt.change(c.Handler())
			// The end of the queue: what comes after this has come before.
			c.Handler().OnAdd(pod("1", "store", "", nil), false)
			for range len(tt.want) + 1 {
				select {
				case <-seen:
				case <-time.After(2 * time.Minute):
					t.Fatal("nobody was told in time")
				}
			}
			cancel()
			<-done
			want := append([]string{"ns/store"}, tt.want...)
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(told)); !slices.Equal(got, slices.Compact(want)) {
				t.Errorf("told %v, want %v", got, slices.Compact(want))
			}
		})
	}
}
