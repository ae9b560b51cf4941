package plugin

import (
	"context"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Idler = (*Policy)(nil)

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
	err := at.unit.ask(ctx, at.name, guest.CallIdle, replica, func(_ context.Context, g guest.Guest, k int) (err error) {
		if asked, ok := g.(guest.Idler); ok {
			idle, err = asked.Idle(k, class)
		}
		return err
	})
	return err == nil && idle
}

// asserted is what a plugin's module asserts of a class; false of one that fails, and
// of a process.
func (at place) asserted(ctx context.Context, call string, replica uint64, class uint32) (yes bool) {
	err := at.unit.ask(ctx, at.name, call, replica, func(_ context.Context, g guest.Guest, k int) (err error) {
		if asked, ok := g.(guest.Asserter); ok {
			yes, err = asked.Asserts(call, k, class)
		}
		return err
	})
	return err == nil && yes
}
