package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
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

// BenchmarkPodStatus is durable patches of pods' statuses as agents send them, by 32 clients
// over TLS, and the processor time of both sides: the short way and the machinery's.
func BenchmarkPodStatus(b *testing.B) {
	for _, way := range []string{"short", "machinery"} {
		b.Run(way, func(b *testing.B) {
			s := start(b, b.TempDir())
			cfg, err := clientcmd.BuildConfigFromFlags("", s.AdminKubeconfig())
			if err != nil {
				b.Fatal(err)
			}
			cfg.QPS, cfg.ContentType, cfg.AcceptContentTypes = -1, runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
			if way == "machinery" {
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return timed{next} })
			}
			pods := kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("default")
			create := func(name string) *corev1.Pod {
				made, err := pods.Create(b.Context(), pod(name), metav1.CreateOptions{})
				if err == nil {
					err = s.Bind(b.Context(), bindingOf(made, "n1"))
				}
				if err != nil {
					b.Fatal(err)
				}
				return made
			}
			made := map[string]types.UID{"first": create("first").UID}
			for i := range b.N {
				name := fmt.Sprintf("p-%d", i+1)
				made[name] = create(name).UID
			}
			benchCreates(b, func(name string) error {
				_, err := pods.Patch(b.Context(), name, types.StrategicMergePatchType, []byte(strings.ReplaceAll(firstStatus, "$UID", string(made[name]))), metav1.PatchOptions{}, "status")
				return err
			})
		})
	}
}

// timed makes patches go the machinery's way.
type timed struct{ http.RoundTripper }

func (m timed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPatch {
		req = req.Clone(req.Context())
		req.URL.RawQuery = "timeout=30s"
	}
	return m.RoundTripper.RoundTrip(req)
}
