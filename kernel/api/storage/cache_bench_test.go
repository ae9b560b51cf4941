package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/utils/clock"
)

// caches are this package's storage as it is, and with upstream's watch cache over it.
var caches = map[string]func(testing.TB, *Storage) storage.Interface{
	"ours":   func(_ testing.TB, s *Storage) storage.Interface { return s },
	"cacher": upstreamCacher,
}

func upstreamCacher(t testing.TB, s *Storage) storage.Interface {
	t.Helper()
	c, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage: s, Versioner: s.versioner, GroupResource: schema.GroupResource{Resource: "pods"},
		EventsHistoryWindow: time.Minute + 15*time.Second, ResourcePrefix: "/pods/",
		KeyFunc:      func(obj kruntime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		GetAttrsFunc: podAttributes, IndexerFuncs: s.trigger,
		NewFunc: func() kruntime.Object { return &corev1.Pod{} }, NewListFunc: func() kruntime.Object { return &corev1.PodList{} },
		Codec: s.codec, Clock: clock.RealClock{},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := cacher.NewCacheDelegator(c, s)
	t.Cleanup(func() { d.Stop(); c.Stop() })
	for deadline := time.Now().Add(2 * time.Minute); d.ReadinessCheck() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the cacher did not become ready")
		}
	}
	return d
}

func podAttributes(obj kruntime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil, errors.New("not a pod")
	}
	return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName}, nil
}

// createPods makes n pods as 64 clients would.
func createPods(t testing.TB, s storage.Interface, n int64) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				pod := typicalPod(i)
				if err := s.Create(context.Background(), "/pods/ns/"+pod.Name, pod, nil, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// typicalPod is a pod as a controller makes it and a node reports on it: 1.5 KB as protobuf.
func typicalPod(i int64) *corev1.Pod {
	yes, now := true, metav1.Now()
	name := fmt.Sprintf("web-%d-%05d", i%100, i)
	ready := []corev1.PodCondition{}
	for _, c := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		ready = append(ready, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "ns", UID: "0d6a8c9e-2f0d-4c59-9d6a-0123456789ab", CreationTimestamp: now,
			GenerateName:    fmt.Sprintf("web-%d-", i%100),
			Labels:          map[string]string{"app": "web", "pod-template-hash": "5d4f8c7b9", "tier": strconv.Itoa(int(i % 100))},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f8c7b9", UID: "a1b2c3", Controller: &yes}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &now, FieldsType: "FieldsV1",
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"a1b2c3\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:resources":{},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{}}},"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{}}}`)},
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%d", i%1000), ServiceAccountName: "default", RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: "default-scheduler",
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/team/web:1.27.3", ImagePullPolicy: corev1.PullIfNotPresent,
				Env:   []corev1.EnvVar{{Name: "MODE", Value: "production"}, {Name: "PORT", Value: "8080"}},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.1.2.3", HostIP: "10.0.0.1", StartTime: &now, Conditions: ready},
	}
}

// BenchmarkCache puts this package's storage beside upstream's watch cache over it. The decision and the figures are in
// kernel/rationale/007-own-cache-or-cacher.md.
//
//	go test ./kernel/api/storage -run '^$' -bench 'Cache/' -benchtime 2s
func BenchmarkCache(b *testing.B) {
	const pods = 10_000
	for _, name := range []string{"ours", "cacher"} {
		b.Run(name, func(b *testing.B) {
			f := newFixture(b, Options{})
			s, _ := podStorage(b, f)
			createPods(b, s, pods)
			s.cache.clear()
			before := heap()
			c := caches[name](b, s)
			list(b, c, pods, "0")
			b.Run("Memory", func(b *testing.B) {
				for b.Loop() {
				}
				b.ReportMetric(float64(heap()-before)/pods, "B/pod")
			})
			for _, version := range []string{"", "0"} {
				b.Run("Get/RV="+version, func(b *testing.B) {
					b.ReportAllocs()
					report := processorTime()
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if err := c.Get(context.Background(), "/pods/ns/web-5-00005", storage.GetOptions{ResourceVersion: version}, &corev1.Pod{}); err != nil {
								b.Error(err)
							}
						}
					})
					b.ReportMetric(report()/float64(b.N), "CPU-µs/op")
				})
				b.Run("List/RV="+version, func(b *testing.B) {
					b.ReportAllocs()
					report, n := processorTime(), 0
					for b.Loop() {
						list(b, c, pods, version)
						n++
					}
					b.ReportMetric(report()/float64(n), "CPU-µs/op")
				})
			}
		})
		b.Run(name+"/Watch", func(b *testing.B) { fanOut(context.Background(), b, name, 1000, 500) })
		b.Run(name+"/WritesUnwatched", func(b *testing.B) { fanOut(context.Background(), b, name, 0, 500) })
	}
	b.Run("ours/WatchEachEncodes", func(b *testing.B) { fanOut(WithPlainObjects(context.Background()), b, "ours", 1000, 500) })
}

// processorTime starts a clock of the process's processor time, which other work on the machine does not stretch. It
// gives microseconds.
func processorTime() (elapsed func() float64) {
	used := func() float64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1000
	}
	start := used()
	return func() float64 { return used() - start }
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func list(t testing.TB, s storage.Interface, want int, version string) {
	out := &corev1.PodList{}
	err := s.GetList(context.Background(), "/pods", storage.ListOptions{ResourceVersion: version, Predicate: storage.Everything, Recursive: true}, out)
	if err != nil || len(out.Items) != want {
		t.Fatalf("%d items, %v", len(out.Items), err)
	}
}

// fanOut has watches encode what is written at a rate and reports the time from the write's answer to the end of its
// encoding by each watch. An operation is a write.
func fanOut(ctx context.Context, b *testing.B, name string, watches, rate int) {
	f := newFixture(b, Options{})
	s, codec := podStorage(b, f)
	createPods(b, s, 100)
	c := caches[name](b, s)
	revision, _ := s.GetCurrentResourceVersion(context.Background())
	committed := make([]atomic.Int64, b.N+1)
	latencies := make([][]time.Duration, watches)
	var ended atomic.Int64
	var wg sync.WaitGroup
	for n := range watches {
		w, err := c.Watch(ctx, "/pods", storage.ListOptions{ResourceVersion: fmt.Sprint(revision), Predicate: storage.Everything, Recursive: true})
		if err != nil {
			b.Fatal(err)
		}
		latencies[n] = make([]time.Duration, 0, b.N)
		wg.Go(func() {
			defer w.Stop()
			for len(latencies[n]) < b.N {
				e, ok := <-w.ResultChan()
				if !ok {
					// Upstream's cacher ends a watch that is too slow, and its client lists again.
					ended.Add(1)
					return
				}
				if e.Type != watch.Modified {
					b.Errorf("watch %d got %v %v", n, e.Type, e.Object)
					return
				}
				if err := codec.Encode(e.Object, io.Discard); err != nil {
					b.Error(err)
				}
				object, err := meta.Accessor(e.Object)
				if err != nil {
					b.Error(err)
					return
				}
				version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
				if err != nil {
					b.Error(err)
				}
				if at := committed[version-revision].Load(); at != 0 {
					latencies[n] = append(latencies[n], time.Since(time.Unix(0, at)))
				} else {
					latencies[n] = append(latencies[n], 0) // before the writer had its answer
				}
			}
		})
	}
	used := processorTime()
	var writing time.Duration
	b.ResetTimer()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	for i := range b.N {
		<-tick.C
		start := time.Now()
		err := c.GuaranteedUpdate(context.Background(), fmt.Sprintf("/pods/ns/web-%d-%05d", (i%99)+1, (i%99)+1), &corev1.Pod{}, false, nil,
			storage.SimpleUpdate(func(obj kruntime.Object) (kruntime.Object, error) {
				obj.(*corev1.Pod).Status.Message = strconv.Itoa(i)
				return obj, nil
			}), nil)
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		committed[i+1].Store(now.UnixNano())
		writing += now.Sub(start)
	}
	tick.Stop()
	wg.Wait()
	b.StopTimer()
	if cpu, deliveries := used(), len(slices.Concat(latencies...)); deliveries > 0 {
		b.ReportMetric(cpu/float64(deliveries), "CPU-µs/delivery")
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64(writing.Microseconds())/float64(b.N), "µs/write")
	b.ReportMetric(float64(ended.Load()), "watches-ended")
	if all := slices.Sorted(slices.Values(slices.Concat(latencies...))); len(all) > 0 {
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	}
}
