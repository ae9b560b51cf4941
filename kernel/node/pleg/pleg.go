package pleg

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/node/cri"
)

// Unhealthy is how long no listing may succeed before the node is not ready.
const Unhealthy = 3 * time.Minute

// failedRelist is how long a listing that failed waits at most.
const failedRelist = 10 * time.Second

// Config sets periods: without and with a working event stream.
type Config struct{ Relist, EventedRelist time.Duration }

// Generator names pods that changed.
type Generator struct {
	cfg    Config
	client *cri.Client
	// changed is called with each pod that changed; it must not block.
	changed func(uid types.UID)
	logger  *slog.Logger
	events  *Events
	first   chan struct{}

	mu     sync.Mutex
	pods   map[types.UID]*cri.Pod
	listed time.Time
	err    error
}

// New makes a generator. Have rounds made, and its pods' events told to changed by whoever reads events.
func New(cfg Config, client *cri.Client, events *Events, changed func(uid types.UID), logger *slog.Logger) *Generator {
	return &Generator{cfg: cfg, client: client, events: events, changed: changed, logger: logger, first: make(chan struct{})}
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

// Round lists the runtime's pods and answers when to do so again.
func (g *Generator) Round(ctx context.Context) time.Duration {
	ok := g.relist(ctx)
	period := g.cfg.Relist
	if g.events.Streaming() {
		period = g.cfg.EventedRelist
	}
	if !ok {
		return min(period, failedRelist)
	}
	return period
}

func (g *Generator) relist(ctx context.Context) bool {
	pods, err := g.client.List(ctx)
	g.mu.Lock()
	if err != nil {
		if ctx.Err() == nil && g.err == nil {
			g.logger.Error("could not list the container runtime's pods", "err", err)
		}
		g.err = err
		g.mu.Unlock()
		return false
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
	return true
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
