package conntrack

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Forgetter deletes the stale flows of a proxy, apart from the lock of its state: the kernel lists
// every connection for this, which may take long, and health checks and the status do not wait.
type Forgetter struct {
	remove func(Family, *Stale) error
	pace   Pace

	mu    sync.Mutex // not held while flows are deleted
	stale map[Family]*Stale
}

// NewForgetter has nothing noted. It tells a function how long each look at the kernel's table took,
// and how many flows of a family it deleted.
func NewForgetter(tell func(family string, took time.Duration, deleted int)) *Forgetter {
	return ForgetterBy(func(f Family, gone *Stale) error {
		begun := time.Now()
		deleted, err := Delete(f, gone.Match)
		tell(f.String(), time.Since(begun), deleted)
		return err
	})
}

// ForgetterBy deletes flows by a function.
func ForgetterBy(remove func(Family, *Stale) error) *Forgetter {
	return &Forgetter{remove: remove, stale: map[Family]*Stale{}}
}

// Start drops what was noted, and lets flows be deleted again after Stop.
func (g *Forgetter) Start() {
	g.mu.Lock()
	clear(g.stale)
	g.mu.Unlock()
	g.pace.Start()
}

// Stop waits for the deletion that runs, after which there is none.
func (g *Forgetter) Stop() { g.pace.Stop() }

// Note adds flows that are stale as soon as the kernel has what replaces them. They are newer than
// those noted before.
func (g *Forgetter) Note(f Family, flows *Stale) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if older := g.stale[f]; older != nil {
		flows.Merge(older)
	}
	g.stale[f] = flows
}

// Forget deletes what was noted, shortly after another deletion some time later (Pace). It is called
// when the kernel has what replaces it. What fails is noted again, for the next call.
func (g *Forgetter) Forget(log *slog.Logger) {
	if g.noted() {
		g.pace.Run(func() { g.forget(log) })
	}
}

func (g *Forgetter) noted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, flows := range g.stale {
		if !flows.Empty() {
			return true
		}
	}
	return false
}

func (g *Forgetter) forget(log *slog.Logger) {
	for _, f := range []Family{IPv4, IPv6} {
		flows := g.take(f)
		if flows == nil || flows.Empty() {
			continue
		}
		if err := g.remove(f, flows); err != nil {
			log.Warn("UDP flows may reach an endpoint that is gone; it is tried again", "error", fmt.Errorf("UDP flows of %s: %w", f, err))
			g.again(f, flows)
		}
	}
}

func (g *Forgetter) take(f Family) *Stale {
	g.mu.Lock()
	defer g.mu.Unlock()
	flows := g.stale[f]
	delete(g.stale, f)
	return flows
}

// again notes what was taken. What was noted meanwhile is newer.
func (g *Forgetter) again(f Family, flows *Stale) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if newer := g.stale[f]; newer != nil {
		newer.Merge(flows)
		return
	}
	g.stale[f] = flows
}
