package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/metrics-server/pkg/storage"
)

const (
	// hollowLabel marks nodes that simulate their pods: they measure nothing.
	hollowLabel = "kernel.pintle.dev/hollow"
	// together is how many nodes are asked at once.
	together = 16
	// longestAnswer is how many bytes a node may answer: some thousand containers.
	longestAnswer = 8 << 20
)

// agents asks the agents of nodes, through the API server.
type agents struct {
	client  rest.Interface
	timeout time.Duration
}

func newAgents(config *rest.Config, timeout time.Duration) (*agents, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the nodes' agents: %w", err)
	}
	return &agents{client: client.CoreV1().RESTClient(), timeout: timeout}, nil
}

// ask returns a node's /metrics/resource.
func (a *agents) ask(ctx context.Context, node string) (answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	body, err := a.client.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("metrics/resource").Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	return readBounded(body)
}

func readBounded(body io.Reader) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(body, longestAnswer+1))
	if err == nil && len(answer) > longestAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", longestAnswer)
	}
	return answer, err
}

// scraper measures all nodes once a period.
type scraper struct {
	nodes    corelisters.NodeLister
	selected labels.Selector
	ask      func(ctx context.Context, node string) ([]byte, error)
	store    func(*storage.MetricsBatch)
	log      *slog.Logger
	every    time.Duration
}

// run measures until ctx ends.
func (s *scraper) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		s.store(s.once(ctx))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// once asks every node and returns what they measured.
func (s *scraper) once(ctx context.Context) *storage.MetricsBatch {
	batch := &storage.MetricsBatch{Nodes: map[string]storage.MetricsPoint{}, Pods: map[types.NamespacedName]storage.PodMetricsPoint{}}
	nodes, err := s.nodes.List(s.selected)
	if err != nil {
		s.log.Warn("nodes cannot be listed", "error", err)
		return batch
	}
	waiting := make(chan *corev1.Node)
	var mu sync.Mutex // of batch
	var wg sync.WaitGroup
	for range min(together, len(nodes)) {
		wg.Go(func() {
			for node := range waiting {
				of, err := s.measure(ctx, node.Name)
				if err != nil {
					s.failed(ctx, node, err)
					continue
				}
				mu.Lock()
				merge(batch, of)
				mu.Unlock()
			}
		})
	}
	for _, node := range nodes {
		if _, hollow := node.Labels[hollowLabel]; !hollow {
			waiting <- node
		}
	}
	close(waiting)
	wg.Wait()
	return batch
}

func (s *scraper) measure(ctx context.Context, node string) (*storage.MetricsBatch, error) {
	began := time.Now()
	answer, err := s.ask(ctx, node)
	observe(node, err, began)
	if err != nil {
		return nil, err
	}
	return decode(answer, time.Now(), node)
}

// failed tells of a node that was not measured; of one that is not ready quietly.
func (s *scraper) failed(ctx context.Context, node *corev1.Node, err error) {
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelDebug
	for _, c := range ready(node) {
		if c.Status == corev1.ConditionTrue {
			level = slog.LevelWarn
		}
	}
	s.log.Log(ctx, level, "a node was not measured", "node", node.Name, "error", err)
}

// merge adds the measurements of a node. What another told of first stays.
func merge(batch, of *storage.MetricsBatch) {
	for name, point := range of.Nodes {
		batch.Nodes[name] = point
	}
	for name, point := range of.Pods {
		if _, twice := batch.Pods[name]; !twice {
			batch.Pods[name] = point
		}
	}
}
