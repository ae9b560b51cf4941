package garbagecollector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"pintle.dev/pintle/plugins/controllers/loop"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// rediscovery is how often the API is asked for its resources; a change
	// of a custom resource definition asks sooner.
	rediscovery = 30 * time.Second
	// settling gathers changes of definitions, and lets them be served.
	settling = time.Second
	// syncTimeout is how long the first lists are waited for. One resource
	// that cannot be listed must not hold up all others for ever.
	syncTimeout = 30 * time.Second
	workers     = 10
)

// New builds the collector.
func New(c *controller.Context) (controller.Runner, error) {
	found, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	objects, err := metadata.NewForConfig(metadata.ConfigFor(c.RESTConfig))
	if err != nil {
		return nil, fmt.Errorf("metadata client: %w", err)
	}
	return build(c.Client, objects, found.ServerGroupsAndResources, c.Logger), nil
}

type collector struct {
	client   kubernetes.Interface // for events
	objects  metadata.Interface
	list     func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
	log      *slog.Logger
	graph    *graph
	recorder record.EventRecorder
	poke     chan struct{}

	found atomic.Pointer[resources]
	// monitors belongs to the goroutine of Run.
	monitors map[schema.GroupVersionResource]*running
}

type running struct {
	*monitor
	cancel context.CancelFunc
	done   chan struct{}
}

func build(client kubernetes.Interface, objects metadata.Interface, list func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error), log *slog.Logger) *collector {
	return &collector{
		client: client, objects: objects, list: list, log: log, graph: newGraph(),
		poke: make(chan struct{}, 1), monitors: map[schema.GroupVersionResource]*running{},
	}
}

// Run works until ctx ends.
func (c *collector) Run(ctx context.Context) error {
	recorder, stop := loop.Recorder(ctx, c.client, "garbage-collector-controller")
	defer stop()
	c.recorder = recorder
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		c.graph.toDelete.ShutDown()
		c.graph.toOrphan.ShutDown()
		wg.Wait()
		for gvr, r := range c.monitors {
			<-r.done
			delete(c.monitors, gvr)
		}
	}()
	if err := c.rediscover(ctx); err != nil {
		return fmt.Errorf("discovery: %w", err)
	}
	c.awaitSync(ctx)
	for range workers {
		wg.Go(func() { work(ctx, c, c.graph.toDelete, c.attemptToDelete) })
		wg.Go(func() { work(ctx, c, c.graph.toOrphan, c.attemptToOrphan) })
	}
	ticker := time.NewTicker(rediscovery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-c.poke:
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(settling):
			}
		}
		if err := c.rediscover(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("discovery", "error", err)
		}
	}
}

// rediscover starts and ends monitors as the API's resources come and go.
func (c *collector) rediscover(ctx context.Context) error {
	found, err := discover(c.list)
	if err != nil {
		return err
	}
	before := c.found.Load()
	found.keep(before)
	if found.equal(before) {
		return nil
	}
	c.found.Store(found)
	for gvr, r := range c.monitors {
		if _, stays := found.watched[gvr]; !stays {
			r.cancel()
			<-r.done
			r.forget()
			delete(c.monitors, gvr)
		}
	}
	for gvr, kind := range found.watched {
		if c.monitors[gvr] == nil {
			c.watch(ctx, gvr, kind)
		}
	}
	return nil
}

func (c *collector) watch(ctx context.Context, gvr schema.GroupVersionResource, kind string) {
	m := &monitor{graph: c.graph, resource: gvr, kind: kind, seen: map[types.UID]struct{}{}}
	if gvr.Group == "apiextensions.k8s.io" && gvr.Resource == "customresourcedefinitions" {
		m.changed = func() {
			select {
			case c.poke <- struct{}{}:
			default:
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{monitor: m, cancel: cancel, done: make(chan struct{})}
	c.monitors[gvr] = r
	go func() {
		defer close(r.done)
		m.run(ctx, c.objects)
	}()
}

// awaitSync waits for the first list of each monitor: before, owners only
// seem to be missing.
func (c *collector) awaitSync(ctx context.Context) {
	deadline := time.After(syncTimeout)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var waiting []string
		for gvr, r := range c.monitors {
			if !r.synced.Load() {
				waiting = append(waiting, gvr.String())
			}
		}
		if len(waiting) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-deadline:
			c.log.Warn("some resources could not be listed in time; collecting goes on without them", "resources", waiting)
			return
		case <-tick.C:
		}
	}
}

// work drains a queue; do says whether the object is to be looked at again.
func work(ctx context.Context, c *collector, queue workqueue.TypedRateLimitingInterface[types.UID], do func(context.Context, *node) (again bool, err error)) {
	for {
		uid, quit := queue.Get()
		if quit {
			return
		}
		again := false
		if n := c.graph.node(uid); n != nil {
			var err error
			if again, err = do(ctx, n); err != nil {
				again = true
				if ctx.Err() == nil {
					c.log.Warn("object is tried again", "kind", n.kind, "namespace", n.namespace, "name", n.name, "error", err)
				}
			}
		}
		if again {
			queue.AddRateLimited(uid)
		} else {
			queue.Forget(uid)
		}
		queue.Done(uid)
	}
}
