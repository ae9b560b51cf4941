package placements

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fcache "k8s.io/client-go/tools/cache/testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/scheduler"
)

// server is a source of pods that takes bindings and ends pods.
type server struct {
	*fcache.FakeControllerSource
	mu   sync.Mutex
	pods map[string]*v1.Pod
}

func newServer(pods []v1.Pod) *server {
	s := &server{FakeControllerSource: fcache.NewFakeControllerSource(), pods: map[string]*v1.Pod{}}
	for _, pod := range pods {
		s.create(pod)
	}
	return s
}

func (s *server) create(pod v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods[pod.Name] = &pod
	s.Add(&pod)
}

func (s *server) change(name string, change func(*v1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[name].DeepCopy()
	change(pod)
	s.pods[name] = pod
	s.Modify(pod)
}

func (s *server) bind(_ context.Context, b *v1.Binding) error {
	s.change(b.Name, func(p *v1.Pod) { p.Spec.NodeName = b.Target.Name })
	return nil
}

func (s *server) evict(_ context.Context, victim *v1.Pod, _ *v1.PodCondition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, victim.Name)
	s.Delete(victim)
	return nil
}

func (s *server) status(_ context.Context, pod *v1.Pod, _ *v1.PodCondition, nominated *string) error {
	if nominated != nil {
		s.change(pod.Name, func(p *v1.Pod) { p.Status.NominatedNodeName = *nominated })
	}
	return nil
}

// sized is a pod of the benchmarks below.
func sized(name, cpu string, priority int32, node string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("uid-of-" + name), Generation: 1},
		Spec: v1.PodSpec{SchedulerName: modern.SchedulerName, Priority: &priority, NodeName: node, Containers: []v1.Container{{
			Name: "c", Image: "registry/image:v1", Resources: v1.ResourceRequirements{Requests: quantities("cpu", cpu, "memory", "500Mi")},
		}}},
	}
}

// BenchmarkPreemption is b.N nodes with four pods each, and a pod for each node for
// which three of them have to go: -benchtime 500x.
func BenchmarkPreemption(b *testing.B) {
	directory := buildBundle(b, "modern")
	b.Run("all", func(b *testing.B) {
		c := modernCases(b.N, 0, "plain")
		nodes, pods := fcache.NewFakeControllerSource(), []v1.Pod(nil)
		for i := range c.nodes.Items {
			n := &c.nodes.Items[i]
			n.Status.Allocatable = quantities("cpu", 4, "memory", "32Gi", "pods", 110)
			nodes.Add(n)
			for k := range 4 {
				pods = append(pods, sized(fmt.Sprint("low-", i, "-", k), "900m", 0, n.Name))
			}
		}
		server := newServer(pods)
		s := startWith(b, directory, manifest.TransportWASM, modern, scheduler.Deps{Pods: server, Nodes: nodes, Objects: c.objects(), Bind: server.bind, Evict: server.evict, Status: server.status})
		// The first one shows that all of that has arrived.
		server.create(sized("small", "1m", 0, ""))
		await(b, s, 1)
		placeEach(b, s, server, func(i int) v1.Pod { return sized(fmt.Sprint("high-", i), "3", 10, "") })
		s.stop()
	})
}

// placeEach measures b.N pods from their coming to their binding, behind one that
// was bound before.
func placeEach(b *testing.B, s *system, server *server, pod func(i int) v1.Pod) {
	b.Helper()
	began, used := time.Now(), processorTime(b)
	for i := range b.N {
		server.create(pod(i))
	}
	await(b, s, 1+b.N)
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "pods/s")
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/pod")
}

// await returns when n pods are bound.
func await(b *testing.B, s *system, n int) {
	b.Helper()
	for deadline := time.Now().Add(4 * time.Minute); int(s.bound.Load()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d bound", s.bound.Load(), n)
		}
	}
}

// BenchmarkBeside is pods that go through beside others that fit nowhere, on 5,000
// nodes: -benchtime 5000x.
func BenchmarkBeside(b *testing.B) {
	directory := buildBundle(b, "modern")
	for _, stuck := range []int{0, 3000} {
		b.Run(fmt.Sprint(stuck), func(b *testing.B) {
			c := modernCases(5000, 0, "plain")
			nodes, pods := fcache.NewFakeControllerSource(), []v1.Pod(nil)
			for i := range c.nodes.Items {
				nodes.Add(&c.nodes.Items[i])
			}
			for i := range stuck {
				pods = append(pods, sized(fmt.Sprint("stuck-", i), "99", 0, ""))
			}
			server := newServer(append(pods, sized("last", "1m", -1, "")))
			s := startWith(b, directory, manifest.TransportWASM, modern, scheduler.Deps{
				Pods: server, Nodes: nodes, Objects: c.objects(), Bind: server.bind, Evict: server.evict,
				Status: func(_ context.Context, pod *v1.Pod, condition *v1.PodCondition, _ *string) error {
					if condition != nil {
						server.change(pod.Name, func(p *v1.Pod) { p.Status.Conditions = []v1.PodCondition{*condition} })
					}
					return nil
				},
			})
			await(b, s, 1) // behind all others
			placeEach(b, s, server, func(i int) v1.Pod { return sized(fmt.Sprint("pod-", i), "100m", 0, "") })
			s.stop()
		})
	}
}
