package garbagecollector

import (
	"context"
	"errors"
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

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
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
	// workers of each queue, and how many dependents of one owner are orphaned
	// at once.
	workers = 20
)

// New builds the collector.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentGCSyncs", workers)
	if err != nil {
		return nil, fmt.Errorf("garbagecollector: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	objects, err := metadata.NewForConfig(metadata.ConfigFor(c.RESTConfig))
	if err != nil {
		return nil, fmt.Errorf("metadata client: %w", err)
	}
	collector := build(c.Client, objects, found.ServerGroupsAndResources, c.Logger)
	collector.deletes.SetWorkers(workers)
	collector.orphans.SetWorkers(workers)
	return collector, nil
}

type collector struct {
	client   kubernetes.Interface // for events
	objects  metadata.Interface
	list     func() ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
	log      *slog.Logger
	graph    *graph
	deletes  *queue.Loop[types.UID]
	orphans  *queue.Loop[types.UID]
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
	c := &collector{
		client: client, objects: objects, list: list, log: log,
		poke: make(chan struct{}, 1), monitors: map[schema.GroupVersionResource]*running{},
	}
	c.deletes = queue.New(log, c.seen(c.attemptToDelete), queue.Options[types.UID]{Name: "garbage_collector_attempt_to_delete", Workers: workers})
	c.orphans = queue.New(log, c.seen(c.attemptToOrphan), queue.Options[types.UID]{Name: "garbage_collector_attempt_to_orphan", Workers: workers})
	c.graph = newGraph(c.deletes.Add, c.orphans.Add)
	return c
}

// Run works until ctx ends.
func (c *collector) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, c.client, "garbage-collector-controller")
	defer stop()
	c.recorder = recorder
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() {
		cancel()
		c.deletes.Close()
		c.orphans.Close()
		wg.Wait()
		for gvr, r := range c.monitors {
			<-r.done
			delete(c.monitors, gvr)
		}
	}()
	if !c.firstDiscovery(ctx) {
		return nil
	}
	c.awaitSync(ctx)
	wg.Go(func() { c.deletes.Run(ctx) })
	wg.Go(func() { c.orphans.Run(ctx) })
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

// firstDiscovery waits until the API serves, which starts beside its plugins;
// false: ctx ended.
func (c *collector) firstDiscovery(ctx context.Context) bool {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, rediscovery) {
		err := c.rediscover(ctx)
		if err == nil {
			return true
		}
		level := slog.LevelDebug
		if wait > time.Second {
			level = slog.LevelWarn
		}
		c.log.Log(ctx, level, "discovery", "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
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

// errUnseen asks for a later look, when the graph may know more.
var errUnseen = queue.Quiet(errors.New("an owner is not in the graph yet"))

// seen is the sync of a queue over the objects that are in the graph.
func (c *collector) seen(look func(context.Context, *node) error) func(context.Context, types.UID) error {
	return func(ctx context.Context, uid types.UID) error {
		n := c.graph.node(uid)
		if n == nil {
			return nil
		}
		if err := look(ctx, n); err != nil {
			return fmt.Errorf("%s %s/%s: %w", n.kind, n.namespace, n.name, err)
		}
		return nil
	}
}
