package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api"
)

func bindingOf(p *corev1.Pod, node string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

// TestBindAll binds pods together: each ends as it would by itself, and no pod is
// bound twice.
func TestBindAll(t *testing.T) {
	s := start(t, t.TempDir())
	pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
	// made are the bindings of one way, over pods of its own.
	made := func(prefix string) (list []*corev1.Binding) {
		create := func(p *corev1.Pod) *corev1.Pod {
			p.Name = prefix + p.Name
			p, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		for i := range 20 {
			list = append(list, bindingOf(create(pod(fmt.Sprintf("plain-%d", i))), fmt.Sprintf("node-%d", i)))
		}
		twice := create(pod("twice"))
		list = append(list, bindingOf(twice, "node-1"), bindingOf(twice, "node-2"))
		there := pod("there")
		there.Spec.NodeName = "node-3"
		list = append(list, bindingOf(create(there), "node-4"))
		gated := gatedPod()
		gated.Name = "gated"
		list = append(list, bindingOf(create(gated), "node-5"))
		another := create(pod("another"))
		another.UID = "another"
		list = append(list, bindingOf(another, "node-6"))
		absent := pod(prefix + "absent")
		absent.Namespace = "default"
		list = append(list, bindingOf(absent, "node-7"))
		list = append(list, bindingOf(create(pod("nowhere")), ""))
		return list
	}
	alone, together := made("a-"), made("b-")
	// Of some pods a source has told, of others not, and of one what it is no more.
	known := make([]*corev1.Pod, len(together)-1)
	for i, b := range together[:len(known)] {
		if i%2 == 0 && !strings.Contains(b.Name, "absent") {
			known[i] = stored(t, s, b.Name)
		}
	}
	if _, err := pods.Patch(t.Context(), together[0].Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"since":"then"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	failures := s.BindAll(t.Context(), together, known)
	for i, b := range alone {
		want := s.Bind(t.Context(), b)
		got := failures[i]
		if (got == nil) != (want == nil) || apierrors.ReasonForError(got) != apierrors.ReasonForError(want) {
			t.Errorf("%s to %q: together %v, alone %v", together[i].Name, together[i].Target.Name, got, want)
		}
	}
	for i := range alone {
		for _, b := range []*corev1.Binding{alone[i], together[i]} {
			p, err := pods.Get(t.Context(), b.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if b == together[0] && p.Labels["since"] != "then" {
				t.Errorf("%s has lost what was written since it was known", b.Name)
			}
			if i < 21 && p.Spec.NodeName != b.Target.Name {
				t.Errorf("%s is on %q, not on %s", b.Name, p.Spec.NodeName, b.Target.Name)
			}
		}
	}
}

// BenchmarkBind is the processor time of a binding, of 64 at once: alone and together, of
// pods that are in the cache, that have to be read, and that are known instead.
func BenchmarkBind(b *testing.B) {
	const atOnce = 64
	together := func(s *api.Server, list []*corev1.Binding, known []*corev1.Pod) []error {
		return s.BindAll(b.Context(), list, known)
	}
	ways := map[string]func(s *api.Server, list []*corev1.Binding, known []*corev1.Pod) []error{
		"Together": together, "Read": together, "Known": together,
		"Alone": func(s *api.Server, list []*corev1.Binding, _ []*corev1.Pod) []error {
			failures := make([]error, len(list))
			var group sync.WaitGroup
			for i := range list {
				group.Go(func() { failures[i] = s.Bind(b.Context(), list[i]) })
			}
			group.Wait()
			return failures
		},
	}
	for name, bind := range ways {
		b.Run(name, func(b *testing.B) {
			var rest func()
			s, _ := startWith(b, b.TempDir(), func(cfg *api.Config) { rest = cfg.Backend.(interface{ Rest() }).Rest })
			pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
			list, known := make([]*corev1.Binding, b.N), make([]*corev1.Pod, b.N)
			var group sync.WaitGroup
			for w := range 16 {
				group.Go(func() {
					for i := w; i < len(list); i += 16 {
						p, err := pods.Create(b.Context(), pod(fmt.Sprintf("p-%d", i)), metav1.CreateOptions{})
						if err != nil {
							b.Error(err)
							return
						}
						list[i] = bindingOf(p, "node-1")
					}
				})
			}
			group.Wait()
			if b.Failed() {
				return
			}
			if name == "Known" {
				source := must(s.Source(corev1.SchemeGroupVersion.WithResource("pods"), nil))
				items, at := must(source.List(metav1.ListOptions{})).(*corev1.PodList).Items, map[string]*corev1.Pod{}
				for i := range items {
					at[items[i].Name] = &items[i]
				}
				for i := range list {
					known[i] = at[list[i].Name]
				}
			}
			if name == "Known" || name == "Read" {
				rest()
			}
			before := used()
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < len(list); i += atOnce {
				j := min(i+atOnce, len(list))
				for _, err := range bind(s, list[i:j], known[i:j]) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

// used is the processor time of the process.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkBound is the processor time of what follows a decision: the binding, of 128 at
// a time, the event about it, and what a client over TLS is sent that watches all pods.
func BenchmarkBound(b *testing.B) {
	s := start(b, b.TempDir())
	cfg := must(kubeconfig(s))
	cfg.QPS, cfg.ContentType = -1, runtime.ContentTypeProtobuf
	pods := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("default")
	bindings, events := make([]*corev1.Binding, b.N), make([]*eventsv1.Event, b.N)
	var group sync.WaitGroup
	for w := range 16 {
		group.Go(func() {
			for i := w; i < b.N; i += 16 {
				p, err := pods.Create(b.Context(), pod(fmt.Sprintf("p-%d", i)), metav1.CreateOptions{})
				if err != nil {
					b.Error(err)
					return
				}
				bindings[i], events[i] = bindingOf(p, "node-1"), scheduledEvent(p.Name)
			}
		})
	}
	group.Wait()
	if b.Failed() {
		return
	}
	// What the scheduler and the node authorizer follow.
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	list := must(pods.List(ctx, metav1.ListOptions{Limit: 1}))
	seen := make(chan int, 3)
	follow := func(watch func(metav1.ListOptions) (watch.Interface, error)) {
		w := must(watch(metav1.ListOptions{ResourceVersion: list.ResourceVersion}))
		group.Go(func() {
			defer w.Stop()
			n := 0
			for range w.ResultChan() {
				if n++; n == b.N {
					break
				}
			}
			seen <- n
		})
	}
	for range 2 {
		source := must(s.Source(corev1.SchemeGroupVersion.WithResource("pods"), nil)).(cache.ListerWatcherWithContext)
		follow(func(o metav1.ListOptions) (watch.Interface, error) { return source.WatchWithContext(ctx, o) })
	}
	stream := must(kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient().Get().Resource("pods").
		VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: list.ResourceVersion}, scheme.ParameterCodec).Stream(ctx))
	group.Go(func() {
		defer stream.Close()
		frames, n := protobuf.LengthDelimitedFramer.NewFrameReader(stream), 0
		into := make([]byte, 64<<10)
		for n < b.N {
			if _, err := frames.Read(into); err != nil {
				break
			}
			n++
		}
		seen <- n
	})

	const atOnce = 128
	before := used()
	b.ReportAllocs()
	b.ResetTimer()
	var next [2]atomic.Int64
	turn := func(of *atomic.Int64, do func(first, last int) []error) {
		for {
			first := int(of.Add(atOnce)) - atOnce
			if first >= b.N {
				return
			}
			if err := errors.Join(do(first, min(first+atOnce, b.N))...); err != nil {
				b.Error(err)
			}
		}
	}
	for range 3 {
		group.Go(func() {
			turn(&next[0], func(i, j int) []error { return s.BindAll(b.Context(), bindings[i:j], nil) })
		})
	}
	for range 2 {
		group.Go(func() {
			turn(&next[1], func(i, j int) []error { return s.CreateEvents(b.Context(), schedulerUser, events[i:j]) })
		})
	}
	for range 3 {
		if n := <-seen; n != b.N {
			b.Errorf("a watch saw %d of %d", n, b.N)
		}
	}
	group.Wait()
	b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-us/op")
}
