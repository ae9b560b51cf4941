package placements

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

// processorTime is what this process used; on a machine that does other things
// it says more than the clock.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAlone is scheduling without the API: pods that are there already are
// placed on 5,000 nodes by the default provider's set, and bound by a function
// that does nothing. It counts from the first binding to the last, so that
// neither the feed of 5,000 nodes nor the list of pods is in it. Run it with a
// fixed number of pods: -benchtime 20000x.
func BenchmarkAlone(b *testing.B) {
	directory := build(b)
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		for _, shapes := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/shapes=%d", transport, shapes), func(b *testing.B) {
				c := &cases{}
				for i := range 5000 {
					name := fmt.Sprint("node-", i)
					n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{
						"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
						zoneLabel: fmt.Sprint("zone-", i%3), "topology.kubernetes.io/region": "here", "pool": fmt.Sprint("pool-", i%10),
					}}}
					n.Status.Capacity = quantities("cpu", 16, "memory", "64Gi", "pods", 110)
					n.Status.Allocatable = n.Status.Capacity
					c.nodes.Items = append(c.nodes.Items, n)
				}
				for i := range b.N {
					k := i % shapes
					c.pods.Items = append(c.pods.Items, v1.Pod{
						ObjectMeta: metav1.ObjectMeta{
							Namespace: "a", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprintf("5f0c9b1e-0000-4000-8000-%012d", i)),
							Labels: map[string]string{"app": fmt.Sprint("app-", k)},
						},
						Spec: v1.PodSpec{SchedulerName: profile.SchedulerName, Containers: []v1.Container{{
							Name: "c", Image: "registry/image:v1",
							Resources: v1.ResourceRequirements{Requests: quantities("cpu", fmt.Sprint(50+k, "m"), "memory", fmt.Sprint(100+k, "Mi"))},
						}}},
					})
				}
				provider := plugin.Profile{SchedulerName: profile.SchedulerName, Predicates: profile.Predicates, Priorities: profile.Priorities[:4]}
				var began, ended time.Time
				var used time.Duration
				s := start(b, directory, transport, provider, fixed{&c.pods}, fixed{&c.nodes}, nil)
				for deadline := time.Now().Add(4 * time.Minute); int(s.bound.Load()) < b.N; time.Sleep(100 * time.Microsecond) {
					if began.IsZero() && s.bound.Load() > 0 {
						began, used = time.Now(), processorTime(b)
					}
					if time.Now().After(deadline) {
						b.Fatalf("%d of %d bound", s.bound.Load(), b.N)
					}
				}
				ended = time.Now()
				if b.N > 1 {
					b.ReportMetric(float64(b.N-1)/ended.Sub(began).Seconds(), "pods/s")
					b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N-1), "cpu-µs/pod")
				}
				s.stop()
			})
		}
	}
}
