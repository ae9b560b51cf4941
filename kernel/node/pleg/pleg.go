package pleg

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Unhealthy is how long no listing may succeed before the node is not ready.
const Unhealthy = 3 * time.Minute

// Config sets periods: without and with a working event stream.
type Config struct{ Relist, EventedRelist time.Duration }

// Generator names pods that changed.
type Generator struct {
	cfg    Config
	client *cri.Client
	// changed is called with each pod that changed; it must not block.
	changed func(uid types.UID)
	logger  *slog.Logger

	streaming atomic.Bool
	first     chan struct{}

	mu     sync.Mutex
	pods   map[types.UID]*cri.Pod
	listed time.Time
	err    error
}

// New makes a generator. Run it.
func New(cfg Config, client *cri.Client, changed func(uid types.UID), logger *slog.Logger) *Generator {
	return &Generator{cfg: cfg, client: client, changed: changed, logger: logger, first: make(chan struct{})}
}

// Listed is closed after the first successful listing.
func (g *Generator) Listed() <-chan struct{} { return g.first }

// Pods is the last listing; shared, read only.
func (g *Generator) Pods() map[types.UID]*cri.Pod {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pods
}

// Healthy is nil when the runtime was listed lately, else what is wrong.
func (g *Generator) Healthy(now time.Time) (time.Time, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listed.IsZero() || now.Sub(g.listed) > Unhealthy {
		return g.listed, g.err
	}
	return g.listed, nil
}

// Run works until ctx ends.
func (g *Generator) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { g.follow(ctx) })
	defer wg.Wait()
	for {
		g.relist(ctx)
		period := g.cfg.Relist
		if g.streaming.Load() {
			period = g.cfg.EventedRelist
		}
		t := time.NewTimer(period)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

// Relist lists now, outside the period.
func (g *Generator) Relist(ctx context.Context) { g.relist(ctx) }

func (g *Generator) relist(ctx context.Context) {
	pods, err := g.client.List(ctx)
	g.mu.Lock()
	if err != nil {
		if ctx.Err() == nil && g.err == nil {
			g.logger.Error("could not list the container runtime's pods", "err", err)
		}
		g.err = err
		g.mu.Unlock()
		return
	}
	old, isFirst := g.pods, g.listed.IsZero()
	g.pods, g.listed, g.err = pods, time.Now(), nil
	g.mu.Unlock()
	for uid, p := range pods {
		if !same(old[uid], p) {
			g.changed(uid)
		}
	}
	for uid := range old {
		if pods[uid] == nil {
			g.changed(uid)
		}
	}
	if isFirst {
		close(g.first)
	}
}

// same compares states; the listings are sorted alike.
func same(a, b *cri.Pod) bool {
	if a == nil || len(a.Sandboxes) != len(b.Sandboxes) || len(a.Containers) != len(b.Containers) {
		return false
	}
	for i := range a.Sandboxes {
		if a.Sandboxes[i].Id != b.Sandboxes[i].Id || a.Sandboxes[i].State != b.Sandboxes[i].State {
			return false
		}
	}
	for i := range a.Containers {
		if a.Containers[i].Id != b.Containers[i].Id || a.Containers[i].State != b.Containers[i].State {
			return false
		}
	}
	return true
}

// follow reads the event stream, again and again while the runtime has one.
func (g *Generator) follow(ctx context.Context) {
	wait := time.Second
	for ctx.Err() == nil {
		err := g.stream(ctx)
		g.streaming.Store(false)
		if status.Code(err) == codes.Unimplemented {
			g.logger.Info("the container runtime has no event stream; it is listed instead", "period", g.cfg.Relist)
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
		wait = min(2*wait, 30*time.Second)
	}
}

func (g *Generator) stream(ctx context.Context) error {
	events, err := g.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	g.streaming.Store(true)
	for {
		ev, err := events.Recv()
		if err != nil {
			return err
		}
		if ev.PodSandboxStatus != nil && ev.PodSandboxStatus.Metadata != nil {
			g.changed(types.UID(ev.PodSandboxStatus.Metadata.Uid))
			continue
		}
		for _, c := range ev.ContainersStatuses {
			if uid := c.Labels[cri.LabelPodUID]; uid != "" {
				g.changed(types.UID(uid))
				break
			}
		}
	}
}
