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
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
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
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return asking{next, http.MethodPatch, "timeout=30s"} })
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

// asking adds a query to requests of a method.
type asking struct {
	http.RoundTripper
	method, query string
}

func (a asking) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == a.method {
		req = req.Clone(req.Context())
		req.URL.RawQuery = a.query
	}
	return a.RoundTripper.RoundTrip(req)
}

// BenchmarkPodDelete is durable deletes of pods, each by two requests as the garbage collector
// and the pod's node send them, by 32 clients over TLS, and the processor time of both sides: the
// short way, the machinery's handler behind the short chain of filters, and the machinery's.
func BenchmarkPodDelete(b *testing.B) {
	for way, query := range map[string]string{"short": "", "handler": "nothing", "machinery": "timeout=30s"} {
		b.Run(way, func(b *testing.B) {
			s := start(b, b.TempDir())
			client := func(as string) corev1client.PodInterface {
				cfg, err := clientcmd.BuildConfigFromFlags("", s.AdminKubeconfig())
				if err != nil {
					b.Fatal(err)
				}
				cfg.QPS, cfg.ContentType, cfg.AcceptContentTypes = -1, runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return asking{next, http.MethodDelete, query} })
				if as != "" {
					cfg.Impersonate = rest.ImpersonationConfig{UserName: as, Groups: []string{user.NodesGroup}}
				}
				return kubernetes.NewForConfigOrDie(cfg).CoreV1().Pods("default")
			}
			pods, agent := client(""), client(nodeN1.Name)
			made := make(map[string]*corev1.Pod, b.N+1)
			for i := range b.N + 1 {
				name := fmt.Sprintf("p-%d", i)
				if i == 0 {
					name = "first"
				}
				p, err := pods.Create(b.Context(), pod(name), metav1.CreateOptions{})
				if err == nil {
					err = s.Bind(b.Context(), bindingOf(p, "n1"))
				}
				if err != nil {
					b.Fatal(err)
				}
				made[name] = p
			}
			background, now := metav1.DeletePropagationBackground, int64(0)
			benchCreates(b, func(name string) error {
				uid := &metav1.Preconditions{UID: &made[name].UID}
				err := pods.Delete(b.Context(), name, metav1.DeleteOptions{Preconditions: uid, PropagationPolicy: &background})
				if err == nil {
					err = agent.Delete(b.Context(), name, metav1.DeleteOptions{Preconditions: uid, GracePeriodSeconds: &now})
				}
				return err
			})
		})
	}
}
