package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// moduleOwner is who runs a module, as its further instances and controllers need it.
type moduleOwner struct{ unit *unit }

// owner is who a guest of a module belongs to.
type owner interface {
	// configure hands a further instance the present configuration, by the indexes of
	// plugins, and returns which revision of it that was.
	configure(ctx context.Context, g *wasmGuest, index map[string]int) (revision uint64, err error)
	// revision is that of the present configuration.
	revision() uint64
	// bounded keeps a controller to what the operator grants.
	bounded(controller string) func(operator) operator
	// count counts a reconciliation.
	count(controller string, took time.Duration, err error)
	// poke tells that the state of a controller changed.
	poke()
}

// moduleSettings are what a guest of a module has its further instances by.
type moduleSettings struct {
	call, start time.Duration
	// reconcile is the deadline of a reconciliation; 0: reconcileTimeout.
	reconcile  time.Duration
	log, words *slog.Logger // words is for what the module writes
	owner      owner
}

// serve lets a guest make further instances of itself: for controllers and reviews.
func (g *wasmGuest) serve(s moduleSettings) { g.settings = s }

func (o moduleOwner) configure(ctx context.Context, g *wasmGuest, index map[string]int) (uint64, error) {
	return o.unit.configureAll(ctx, g, index)
}

func (o moduleOwner) revision() uint64 {
	o.unit.mu.Lock()
	defer o.unit.mu.Unlock()
	return o.unit.revision
}

func (o moduleOwner) bounded(controller string) func(operator) operator {
	return o.unit.bounded(controller)
}

func (o moduleOwner) count(controller string, took time.Duration, err error) {
	o.unit.stats[controller].record(took, err)
}

func (o moduleOwner) poke() { o.unit.poke() }

// further makes a further instance of a guest's module, configured as the one that the
// scheduler asks: controllers and reviews of requests have theirs, so that they hold up
// nobody.
func (g *wasmGuest) further(log *slog.Logger) (*wasmGuest, error) {
	fresh, err := g.module.instantiate(g.settings.call, g.settings.start, log)
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	for i, p := range fresh.plugins {
		index[p.GetName()] = i
	}
	if fresh.revision, err = g.settings.owner.configure(context.Background(), fresh, index); err != nil {
		_ = fresh.close(context.Background(), 0)
		return nil, fmt.Errorf("further instance: %w", err)
	}
	return fresh, nil
}

// current returns a further instance with the present configuration: has, or a new one in
// its place. On an error has is as it was.
func (g *wasmGuest) current(has *wasmGuest, log *slog.Logger) (*wasmGuest, error) {
	if has.revision == g.settings.owner.revision() {
		return has, nil
	}
	fresh, err := g.further(log)
	if err != nil {
		return has, err
	}
	_ = has.close(context.Background(), 0)
	return fresh, nil
}
