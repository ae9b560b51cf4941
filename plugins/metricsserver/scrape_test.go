package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/metrics-server/pkg/storage"
)

// measuring is a scraper of nodes by name, each of which answers by a function.
func measuring(t *testing.T, every time.Duration, answers map[string]func(ctx context.Context) (io.ReadCloser, error)) (*scraper, *[]*storage.MetricsBatch) {
	t.Helper()
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name := range answers {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if strings.HasPrefix(name, "hollow") {
			node.Labels = map[string]string{hollowLabel: ""}
		}
		if err := nodes.Add(node); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	stored := &[]*storage.MetricsBatch{}
	return &scraper{
		nodes: corelisters.NewNodeLister(nodes), selected: labels.Everything(), timeout: 10 * time.Second, every: every, measured: make(chan struct{}), log: slog.New(slog.DiscardHandler),
		ask: func(ctx context.Context, node string) (io.ReadCloser, error) { return answers[node](ctx) },
		store: func(b *storage.MetricsBatch) {
			mu.Lock()
			defer mu.Unlock()
			*stored = append(*stored, b)
		},
	}, stored
}

func answers(text string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}

// hanging is an answer of which nothing comes after its beginning.
type hanging struct {
	ctx   context.Context //nolint:containedctx // that of the request
	begin io.Reader
}

// Read implements io.Reader.
func (h hanging) Read(p []byte) (int, error) {
	if n, _ := h.begin.Read(p); n > 0 {
		return n, nil
	}
	<-h.ctx.Done()
	return 0, h.ctx.Err()
}

// Many nodes hang, before or within their answer, one fails, one answers rubbish: the
// others are measured.
func TestScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := map[string]func(context.Context) (io.ReadCloser, error){
			"fails":   func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no") },
			"rubbish": answers("{"),
			"hollow":  func(context.Context) (io.ReadCloser, error) { t.Error("a simulated node was asked"); return nil, nil },
		}
		for i := range 40 {
			of[fmt.Sprintf("hangs%d", i)] = func(ctx context.Context) (io.ReadCloser, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			of[fmt.Sprintf("stops%d", i)] = func(ctx context.Context) (io.ReadCloser, error) {
				return io.NopCloser(hanging{ctx, strings.NewReader(whole)}), nil
			}
			of[fmt.Sprintf("n%d", i)] = answers(strings.ReplaceAll(whole, `pod="p"`, fmt.Sprintf(`pod="p%d"`, i)))
		}
		s, _ := measuring(t, 15*time.Second, of)
		began := time.Now()
		batch := s.once(t.Context())
		if len(batch.Nodes) != 40 || len(batch.Pods) != 40 || time.Since(began) > 10*time.Second {
			t.Errorf("%d nodes, %d pods after %s", len(batch.Nodes), len(batch.Pods), time.Since(began))
		}
	})
}

// Nodes are measured twice at once and then once a period, and not after the end.
func TestPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stored := measuring(t, 15*time.Second, map[string]func(context.Context) (io.ReadCloser, error){"n": answers(whole)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.run(ctx); close(done) }()
		time.Sleep(61 * time.Second)
		cancel()
		<-done
		time.Sleep(time.Hour)
		if n := len(*stored); n != 6 {
			t.Errorf("%d measurements in a minute", n)
		}
	})
}

// Who asks for metrics first waits for two measurements, a bounded time; who asks what is
// served does not.
func TestWhenMeasured(t *testing.T) {
	const metrics, discovery = "/apis/metrics.k8s.io/v1beta1/nodes", "/apis/metrics.k8s.io/v1beta1"
	for name, tt := range map[string]struct {
		path     string
		measured time.Duration // 0: never
		wants    time.Duration
	}{
		"metrics": {metrics, 3 * time.Second, 3 * time.Second}, "never": {metrics, 0, firstWait}, "discovery": {discovery, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				measured := make(chan struct{})
				served := 0
				h := whenMeasured(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), measured)
				if tt.measured > 0 {
					time.AfterFunc(tt.measured, func() { close(measured) })
				}
				began := time.Now()
				for range 2 {
					h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, tt.path, nil))
				}
				if waited := time.Since(began); waited != tt.wants || served != 2 {
					t.Errorf("%d requests are served after %s, want %s", served, waited, tt.wants)
				}
				// One that goes away waits no more.
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, tt.path, nil))
				time.Sleep(firstWait)
			})
		})
	}
}

// A pod that two nodes report keeps the first report.
func TestMerge(t *testing.T) {
	pod := types.NamespacedName{Namespace: "ns", Name: "p"}
	of := func(n uint64) *storage.MetricsBatch {
		return &storage.MetricsBatch{Pods: map[types.NamespacedName]storage.PodMetricsPoint{pod: {Containers: map[string]storage.MetricsPoint{"c": {MemoryUsage: n}}}}}
	}
	batch := of(1)
	merge(batch, of(2))
	if batch.Pods[pod].Containers["c"].MemoryUsage != 1 {
		t.Errorf("%+v", batch.Pods)
	}
}

// serving is an API server that speaks as the kernel's socket does.
func serving(t *testing.T, answer http.HandlerFunc) (*agents, *atomic.Int32) {
	t.Helper()
	connections := &atomic.Int32{}
	api := httptest.NewUnstartedServer(answer)
	api.Config.Protocols = new(http.Protocols)
	api.Config.Protocols.SetHTTP1(true)
	api.Config.Protocols.SetUnencryptedHTTP2(true)
	api.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1000}
	api.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	api.Start()
	t.Cleanup(api.Close)
	a, err := newAgents(&rest.Config{Host: api.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return a, connections
}

// As many nodes hang as are asked at once, more than a connection takes requests: another
// one is asked all the same.
func TestAskMany(t *testing.T) {
	const many = together
	var asked atomic.Int32
	all := make(chan struct{})
	a, connections := serving(t, func(w http.ResponseWriter, req *http.Request) {
		if strings.HasPrefix(req.URL.Path, "/api/v1/nodes/good/") {
			_, _ = io.WriteString(w, whole)
			return
		}
		if asked.Add(1) == many {
			close(all)
		}
		<-req.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range many {
		wg.Go(func() {
			if _, err := a.ask(ctx, fmt.Sprintf("n%d", i)); err == nil {
				t.Error("a node that hangs answered")
			}
		})
	}
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%d nodes were asked", asked.Load())
	}
	body, err := a.ask(t.Context(), "good")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close() //nolint:errcheck // it was read
	if answer, err := io.ReadAll(body); err != nil || string(answer) != whole {
		t.Errorf("%q, %v", answer, err)
	}
	if n := connections.Load(); n > 100 {
		t.Errorf("%d connections", n)
	}
}

// A node is asked through the API server; what it answers is read up to a bound.
func TestAsk(t *testing.T) {
	a, _ := serving(t, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/api/v1/nodes/good/proxy/metrics/resource":
			_, _ = io.WriteString(w, whole)
		case "/api/v1/nodes/endless/proxy/metrics/resource":
			for {
				if _, err := io.WriteString(w, strings.Repeat("# "+strings.Repeat("x", 8000)+"\n", 100)); err != nil {
					return
				}
			}
		default:
			http.Error(w, "another", http.StatusNotFound)
		}
	})
	s := &scraper{ask: a.ask, timeout: 2 * time.Minute}
	if batch, err := s.measure(t.Context(), "good"); err != nil || len(batch.Nodes) != 1 || len(batch.Pods) != 1 {
		t.Errorf("%+v, %v", batch, err)
	}
	if _, err := s.measure(t.Context(), "endless"); err == nil || !strings.Contains(err.Error(), "the answer is longer than") {
		t.Error(err)
	}
	for _, name := range []string{"none", "..", "a/b"} {
		if _, err := a.ask(t.Context(), name); err == nil {
			t.Errorf("%q is answered", name)
		}
	}
}

func TestConfig(t *testing.T) {
	c, err := readConfig([]byte(`{"nodeSelector":"a=b"}`))
	if err != nil || c.MetricResolution.Duration != 15*time.Second || c.KubeletRequestTimeout.Duration != 10*time.Second || c.nodes.String() != "a=b" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{`{"metricResolution":"1s"}`, `{"kubeletRequestTimeout":"0s"}`, `{"kubeletRequestTimeout":"1h"}`, `{"nodeSelector":"a in"}`, `{"moon":1}`, `[]`} {
		if _, err := readConfig([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "metrics-server configuration: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What is kept of cached objects.
func TestSlim(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status:     corev1.NodeStatus{Images: []corev1.ContainerImage{{}}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure}}},
	}
	if _, err := slim(node); err != nil || node.Labels["a"] != "b" || node.Annotations != nil || node.ManagedFields != nil || node.Status.Images != nil || len(node.Status.Conditions) != 1 || node.Spec.PodCIDR != "" {
		t.Errorf("%+v, %v", node, err)
	}
	if _, err := slim(cache.DeletedFinalStateUnknown{}); err != nil {
		t.Error(err)
	}
}
