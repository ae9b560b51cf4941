package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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
	// together is how many nodes are asked at once, fewer than the API opens requests for
	// a plugin. A node that hangs holds up none of the others within this number.
	together = 3000
	// connections of a thousand requests each carry them.
	connections = 4
	// unread is how many bytes of one answer wait to be read.
	unread = 64 << 10
	// soon is how long after the first measurements nodes are asked again: a use of CPU
	// needs two, and whoever asks first has waited for the start of this process.
	soon = 2 * time.Second
)

// agents asks the agents of nodes, through the API server.
type agents struct{ client rest.Interface }

// newAgents makes a client that shares connections by HTTP/2: the API takes a limited
// number of connections, and thousands of nodes may hang.
func newAgents(config *rest.Config) (*agents, error) {
	config = rest.CopyConfig(config)
	transport := &http.Transport{
		DialContext: config.Dial, DisableCompression: true, MaxConnsPerHost: connections, Protocols: new(http.Protocols),
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: unread},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	config.Transport = transport
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of the nodes' agents: %w", err)
	}
	return &agents{client: client.CoreV1().RESTClient()}, nil
}

// ask opens a node's /metrics/resource. The caller closes it; it ends with ctx.
func (a *agents) ask(ctx context.Context, node string) (io.ReadCloser, error) {
	return a.client.Get().Resource("nodes").Name(node).SubResource("proxy").Suffix("metrics/resource").Stream(ctx)
}

// scraper measures all nodes once a period.
type scraper struct {
	nodes    corelisters.NodeLister
	selected labels.Selector
	ask      func(ctx context.Context, node string) (io.ReadCloser, error)
	timeout  time.Duration // of one node's whole answer
	store    func(*storage.MetricsBatch)
	log      *slog.Logger
	every    time.Duration
	measured chan struct{} // closed when all nodes were asked twice
}

// run measures until ctx ends.
func (s *scraper) run(ctx context.Context) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	s.store(s.once(ctx))
	select {
	case <-ctx.Done():
		return
	case <-time.After(soon):
	}
	s.store(s.once(ctx))
	close(s.measured)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.store(s.once(ctx))
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

func (s *scraper) measure(ctx context.Context, node string) (of *storage.MetricsBatch, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	began := time.Now()
	defer func() { observe(node, err, began) }()
	answer, err := s.ask(ctx, node)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Close()) }()
	return decode(answer, time.Now(), node)
}

// failed logs a node that was not measured; one that is not ready, at the level of debug.
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

// merge adds the measurements of a node. A pod that two nodes report keeps the first
// report.
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
