package plugin

import (
	"context"
	"time"

	"pintle.dev/pintle/kernel/plugin/wasm"
)

// moduleOwner is who runs a module, as its further instances and controllers need it.
type moduleOwner struct{ unit *unit }

func (o moduleOwner) Configure(ctx context.Context, g *wasm.Guest, index map[string]int) (uint64, error) {
	return o.unit.configureAll(ctx, g, index)
}

func (o moduleOwner) Revision() uint64 {
	o.unit.mu.Lock()
	defer o.unit.mu.Unlock()
	return o.unit.revision
}

func (o moduleOwner) Bounded(controller string) func(wasm.Operator) wasm.Operator {
	return o.unit.bounded(controller)
}

func (o moduleOwner) Count(controller string, took time.Duration, err error) {
	o.unit.stats[controller].record(took, err)
}

func (o moduleOwner) Poke() { o.unit.poke() }
