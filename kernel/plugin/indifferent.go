package plugin

import (
	"context"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Indifferer = (*Policy)(nil)

// IndifferentVerdict reports whether pods of the class do not concern each other to
// predicate i.
func (p *Policy) IndifferentVerdict(ctx context.Context, i int, class uint32) bool {
	return p.filters[i].indifferent(ctx, p.replica, class)
}

// IndifferentScore is IndifferentVerdict of priority i.
func (p *Policy) IndifferentScore(ctx context.Context, i int, class uint32) bool {
	return p.scorers[i].indifferent(ctx, p.replica, class)
}

// indifferent asks the plugin; of one that fails, and of a process, pods may concern
// each other.
func (at place) indifferent(ctx context.Context, replica uint64, class uint32) bool {
	return at.asserted(ctx, guest.CallIndifferent, replica, class)
}
