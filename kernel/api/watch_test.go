package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api"
)

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("watch ended")
		}
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("no event")
	}
	return watch.Event{}
}

// API-6, API-27: a watch delivers adds, changes and deletes in order, through
// each way in; with streaming lists, what is there first and then a bookmark.
func TestWatch(t *testing.T) {
	s := start(t, t.TempDir())
	clients := map[string]kubernetes.Interface{
		"tls":       overTLS(t, s),
		"inprocess": kubernetes.NewForConfigOrDie(s.ClientConfig(admin)),
	}
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			maps := c.CoreV1().ConfigMaps("default")
			if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-old"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			yes := true
			w, err := maps.Watch(ctx, metav1.ListOptions{
				SendInitialEvents: &yes, AllowWatchBookmarks: true,
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
				FieldSelector:        fields.OneTermNotEqualSelector("metadata.name", "kube-root-ca.crt").String(),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			for {
				e := next(t, w)
				if e.Type == watch.Bookmark {
					if e.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey] != "true" {
						t.Error("first bookmark does not end the initial events")
					}
					break
				}
			}
			made, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			made.Data = map[string]string{"a": "b"}
			if _, err := maps.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := maps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				e := next(t, w)
				for e.Type == watch.Bookmark {
					e = next(t, w)
				}
				if m, ok := e.Object.(*corev1.ConfigMap); e.Type != want || !ok || m.Name != name {
					t.Errorf("got %s of %v, want %s of %s", e.Type, e.Object, want, name)
				}
			}
		})
	}
}

// through sends requests to the server that is there, counts those that list, and refuses connections when none is.
type through struct {
	mu    sync.Mutex
	to    http.RoundTripper
	lists atomic.Int64
}

func (t *through) set(to http.RoundTripper) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = to
}

func (t *through) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	to := t.to
	t.mu.Unlock()
	if to == nil {
		return nil, syscall.ECONNREFUSED
	}
	if q := r.URL.Query(); q.Get("watch") == "" || q.Get("sendInitialEvents") == "true" {
		t.lists.Add(1)
	}
	return to.RoundTrip(r)
}

// A reflector that was there before a restart of the kernel goes on where it had been, without a list: it is told what
// came and went meanwhile. Only when that was compacted it lists again.
func TestReflectorAcrossRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	way, seen := &through{}, cache.NewStore(cache.MetaNamespaceKeyFunc)
	expect := func(t *testing.T, want string) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			keys := seen.ListKeys()
			slices.Sort(keys)
			if got := strings.Join(keys, " "); got == want {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("the reflector has %q, want %q", got, want)
			}
		}
	}
	const namespace = "kube-public"
	create := func(t *testing.T, s *api.Server, name string) {
		t.Helper()
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"seen": "yes"}}}
		if _, err := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().ConfigMaps(namespace).Create(t.Context(), m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	reflecting := make(chan struct{})
	t.Run("first", func(t *testing.T) {
		s := start(t, dir)
		create(t, s, "a")
		cfg := s.ClientConfig(admin)
		way.set(cfg.Transport)
		cfg.Transport = way
		maps := kubernetes.NewForConfigOrDie(cfg).CoreV1().ConfigMaps(namespace)
		only := func(o metav1.ListOptions) metav1.ListOptions { o.LabelSelector = "seen=yes"; return o }
		r := cache.NewReflectorWithOptions(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return maps.List(ctx, only(o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return maps.Watch(ctx, only(o))
			},
		}, &corev1.ConfigMap{}, seen, cache.ReflectorOptions{})
		go func() { defer close(reflecting); r.RunWithContext(ctx) }()
		expect(t, namespace+"/a")
		create(t, s, "b")
		expect(t, namespace+"/a "+namespace+"/b")
		way.set(nil)
	})
	defer func() { cancel(); <-reflecting }()
	lists := way.lists.Load()
	t.Run("second", func(t *testing.T) {
		s := start(t, dir)
		create(t, s, "c")
		if err := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().ConfigMaps(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		way.set(s.ClientConfig(admin).Transport)
		expect(t, namespace+"/b "+namespace+"/c")
		create(t, s, "d")
		expect(t, namespace+"/b "+namespace+"/c "+namespace+"/d")
		if n := way.lists.Load(); n != lists {
			t.Errorf("%d lists after the restart", n-lists)
		}
		way.set(nil)
	})
	t.Run("compacted", func(t *testing.T) {
		s, st := startOver(t, dir)
		create(t, s, "e")
		if err := st.Compact(t.Context(), st.CurrentRevision()); err != nil {
			t.Fatal(err)
		}
		way.set(s.ClientConfig(admin).Transport)
		expect(t, namespace+"/b "+namespace+"/c "+namespace+"/d "+namespace+"/e")
		if n := way.lists.Load(); n == lists {
			t.Error("no list after the compaction")
		}
		cancel()
	})
}

// API-22: a list comes in chunks when asked to, all at one revision.
func TestChunks(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	maps := overTLS(t, s).CoreV1().ConfigMaps("kube-public")
	for i := range 7 {
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var names, versions []string
	opts := metav1.ListOptions{Limit: 3}
	for {
		l, err := maps.List(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range l.Items {
			names = append(names, m.Name)
		}
		versions = append(versions, l.ResourceVersion)
		if opts.Continue = l.Continue; opts.Continue == "" {
			break
		}
	}
	if len(names) != 7 || len(versions) != 3 || versions[0] != versions[2] {
		t.Errorf("names %v at versions %v", names, versions)
	}
}

// The direct source delivers what the field selector takes, without HTTP.
func TestSource(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := kubernetes.NewForConfigOrDie(s.ClientConfig(admin))
	lw, err := s.Source(corev1.SchemeGroupVersion.WithResource("configmaps"), fields.OneTermEqualSelector("metadata.name", "seen"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *corev1.ConfigMap, 10)
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: &corev1.ConfigMap{},
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { got <- o.(*corev1.ConfigMap) }},
	})
	done := make(chan struct{})
	go func() { defer close(done); informer.RunWithContext(ctx) }()
	for _, name := range []string{"unseen", "seen"} {
		if _, err := c.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case m := <-got:
		if m.Name != "seen" {
			t.Errorf("got %s", m.Name)
		}
	case <-time.After(2 * time.Minute):
		t.Error("nothing delivered")
	}
	cancel()
	<-done
	if _, err := s.Source(corev1.SchemeGroupVersion.WithResource("nothings"), nil); err == nil {
		t.Error("a resource that is not served has a source")
	}
}
