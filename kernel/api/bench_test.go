package api_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.example/bench:1",
			Ports: []corev1.ContainerPort{{ContainerPort: 80}},
		}}},
	}
}

// BenchmarkPodCreate is durable creates by 32 clients over TLS, and the processor
// time of both sides.
func BenchmarkPodCreate(b *testing.B) {
	s := start(b, b.TempDir())
	const workers = 32
	var next atomic.Int64
	var wg sync.WaitGroup
	ctx := b.Context()
	pods := overTLS(b, s).CoreV1().Pods("default")
	// The first write builds the models for managed fields.
	if _, err := pods.Create(ctx, pod("first"), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	before := used()
	b.ReportAllocs()
	b.ResetTimer()
	for range workers {
		wg.Go(func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				if _, err := pods.Create(ctx, pod(fmt.Sprintf("p-%d", i)), metav1.CreateOptions{}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}
