package plugin

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Idler = (*Policy)(nil)

// idler is a guest that knows which of its plugins have nothing to say.
type idler interface {
	// idle reports whether plugin i has nothing to say about a class.
	idle(i int, class uint32) (bool, error)
}

// IdleVerdict reports whether predicate i lets the class pass everywhere.
func (p *Policy) IdleVerdict(ctx context.Context, i int, class uint32) bool {
	return p.filters[i].idle(ctx, p.replica, class)
}

// IdleScore reports whether priority i gives the class 0 everywhere.
func (p *Policy) IdleScore(ctx context.Context, i int, class uint32) bool {
	return p.scorers[i].idle(ctx, p.replica, class)
}

// idle asks the plugin; one that fails is asked about nodes, and fails there.
func (at place) idle(ctx context.Context, replica uint64, class uint32) (idle bool) {
	err := at.unit.ask(ctx, at.name, callIdle, replica, func(_ context.Context, g guest, k int) (err error) {
		if asked, ok := g.(idler); ok {
			idle, err = asked.idle(k, class)
		}
		return err
	})
	return err == nil && idle
}

func (g *wasmGuest) idle(i int, class uint32) (bool, error) {
	return g.yes(g.idleFn, i, class)
}

// asserted is what a plugin's module asserts of a class; false of one that fails, and
// of a process.
func (at place) asserted(ctx context.Context, call string, replica uint64, class uint32) (yes bool) {
	err := at.unit.ask(ctx, at.name, call, replica, func(_ context.Context, g guest, k int) (err error) {
		if asked, ok := g.(asserter); ok {
			yes, err = asked.asserts(call, k, class)
		}
		return err
	})
	return err == nil && yes
}

// asserts is what a module answers to a call about a class that is yes or no.
func (g *wasmGuest) asserts(call string, i int, class uint32) (bool, error) {
	switch call {
	case callAloof:
		return g.yes(g.aloofFn, i, class)
	case callIndifferent:
		return g.yes(g.indifferentFn, i, class)
	}
	return false, nil
}

// yes asks a question about a class; a module that does not export it answers no.
func (g *wasmGuest) yes(question *export, i int, class uint32) (bool, error) {
	if question == nil {
		return false, nil
	}
	g.stack[0], g.stack[1] = uint64(i), uint64(class)
	if err := g.invoke(question, g.timeout); err != nil {
		return false, err
	}
	switch int32(g.stack[0]) {
	case 0:
		return false, nil
	case 1:
		return true, nil
	}
	return false, g.answered()
}
