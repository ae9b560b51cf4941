package plugin

import (
	"context"
	"fmt"
	"log/slog"
)

// instance makes a further instance of a unit's module, configured as the one
// that the scheduler asks: controllers and reviews of requests have theirs, so
// that they hold up nobody.
func (u *unit) instance(of *wasmGuest, log *slog.Logger) (*wasmGuest, error) {
	g, err := of.module.instantiate(u.call, u.start, log)
	if err != nil {
		return nil, err
	}
	index := map[string]int{}
	for i, p := range g.plugins {
		index[p.GetName()] = i
	}
	if g.revision, err = u.configureAll(context.Background(), g, index); err != nil {
		_ = g.close(context.Background(), 0)
		return nil, fmt.Errorf("further instance: %w", err)
	}
	return g, nil
}

// current returns an instance with the unit's present configuration: g, or a new
// one in its place. On an error g is as it was.
func (u *unit) current(g *wasmGuest, log *slog.Logger) (*wasmGuest, error) {
	u.mu.Lock()
	revision := u.revision
	u.mu.Unlock()
	if g.revision == revision {
		return g, nil
	}
	fresh, err := u.instance(g, log)
	if err != nil {
		return g, err
	}
	_ = g.close(context.Background(), 0)
	return fresh, nil
}
