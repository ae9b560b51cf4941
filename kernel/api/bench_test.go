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
	pods := overTLS(b, start(b, b.TempDir())).CoreV1().Pods("default")
	benchCreates(b, func(name string) error {
		_, err := pods.Create(b.Context(), pod(name), metav1.CreateOptions{})
		return err
	})
}

// BenchmarkServiceCreate is the same of services, which get an address each.
func BenchmarkServiceCreate(b *testing.B) {
	services := overTLS(b, start(b, b.TempDir())).CoreV1().Services("default")
	benchCreates(b, func(name string) error {
		_, err := services.Create(b.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		return err
	})
}

func benchCreates(b *testing.B, create func(name string) error) {
	const workers = 32
	var next atomic.Int64
	var wg sync.WaitGroup
	// The first write builds the models for managed fields.
	if err := create("first"); err != nil {
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
				if err := create(fmt.Sprintf("p-%d", i)); err != nil {
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
