package wasm

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Owner is who a guest of a module belongs to.
type Owner interface {
	// Configure hands a further instance the present configuration, by the indexes of
	// plugins, and returns which revision of it that was.
	Configure(ctx context.Context, g *Guest, index map[string]int) (revision uint64, err error)
	// Revision is that of the present configuration.
	Revision() uint64
	// Bounded keeps a controller to what the operator grants.
	Bounded(controller string) func(Operator) Operator
	// Count counts a reconciliation.
	Count(controller string, took time.Duration, err error)
	// Poke tells that the state of a controller changed.
	Poke()
}

// Settings are what a guest of a module has its further instances by.
type Settings struct {
	Call, Start time.Duration
	// Reconcile is the deadline of a reconciliation; 0: reconcileTimeout.
	Reconcile  time.Duration
	Log, Words *slog.Logger // Words is for what the module writes
	Owner      Owner
}

// Serve lets a guest make further instances of itself: for controllers and reviews.
func (g *Guest) Serve(s Settings) { g.settings = s }

// further makes a further instance of a guest's module, configured as the one that the
// scheduler asks: controllers and reviews of requests have theirs, so that they hold up
// nobody.
func (g *Guest) further(log *slog.Logger) (*Guest, error) {
	fresh, err := g.module.Instantiate(g.settings.Call, g.settings.Start, log)
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	for i, p := range fresh.plugins {
		index[p.GetName()] = i
	}
	if fresh.revision, err = g.settings.Owner.Configure(context.Background(), fresh, index); err != nil {
		_ = fresh.Close(context.Background(), 0)
		return nil, fmt.Errorf("further instance: %w", err)
	}
	return fresh, nil
}

// current returns a further instance with the present configuration: has, or a new one in
// its place. On an error has is as it was.
func (g *Guest) current(has *Guest, log *slog.Logger) (*Guest, error) {
	if has.revision == g.settings.Owner.Revision() {
		return has, nil
	}
	fresh, err := g.further(log)
	if err != nil {
		return has, err
	}
	_ = has.Close(context.Background(), 0)
	return fresh, nil
}
