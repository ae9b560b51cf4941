package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
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

// measuring is a scraper of nodes by name, each of which answers as it is told.
func measuring(t *testing.T, every time.Duration, answers map[string]func(ctx context.Context) ([]byte, error)) (*scraper, *[]*storage.MetricsBatch) {
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
		nodes: corelisters.NewNodeLister(nodes), selected: labels.Everything(), every: every, log: slog.New(slog.DiscardHandler),
		ask: func(ctx context.Context, node string) ([]byte, error) { return answers[node](ctx) },
		store: func(b *storage.MetricsBatch) {
			mu.Lock()
			defer mu.Unlock()
			*stored = append(*stored, b)
		},
	}, stored
}

func answers(text string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), nil }
}

// One node hangs, one fails, one answers rubbish: the others are measured.
func TestScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of := map[string]func(context.Context) ([]byte, error){
			"hangs": func(ctx context.Context) ([]byte, error) {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				<-ctx.Done()
				return nil, ctx.Err()
			},
			"fails":   func(context.Context) ([]byte, error) { return nil, errors.New("no") },
			"rubbish": answers("{"),
			"hollow":  func(context.Context) ([]byte, error) { t.Error("a simulated node was asked"); return nil, nil },
		}
		for i := range 40 {
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

// Nodes are measured once a period, and not after the end.
func TestPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, stored := measuring(t, 15*time.Second, map[string]func(context.Context) ([]byte, error){"n": answers(whole)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.run(ctx); close(done) }()
		time.Sleep(61 * time.Second)
		cancel()
		<-done
		time.Sleep(time.Hour)
		if n := len(*stored); n != 5 {
			t.Errorf("%d measurements in a minute", n)
		}
	})
}

// What another node told of a pod first is not replaced.
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

// A node is asked through the API server; what it answers is read up to a bound.
func TestAsk(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/api/v1/nodes/good/proxy/metrics/resource":
			_, _ = io.WriteString(w, whole)
		case "/api/v1/nodes/endless/proxy/metrics/resource":
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		default:
			http.Error(w, "another", http.StatusNotFound)
		}
	}))
	defer api.Close()
	a, err := newAgents(&rest.Config{Host: api.URL}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := a.ask(t.Context(), "good"); err != nil || string(answer) != whole {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := a.ask(t.Context(), "endless"); err == nil || !strings.Contains(err.Error(), "longer than") {
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
