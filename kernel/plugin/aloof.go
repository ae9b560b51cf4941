package plugin

import (
	"context"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Aloofer = (*Policy)(nil)

// AloofVerdict reports whether the class is one of those whose pods do not concern
// each other to predicate i.
func (p *Policy) AloofVerdict(ctx context.Context, i int, class uint32) bool {
	return p.filters[i].aloof(ctx, p.replica, class)
}

// AloofScore is AloofVerdict of priority i.
func (p *Policy) AloofScore(ctx context.Context, i int, class uint32) bool {
	return p.scorers[i].aloof(ctx, p.replica, class)
}

// aloof asks the plugin; of one that fails, and of a process, pods may concern each
// other.
func (at place) aloof(ctx context.Context, replica uint64, class uint32) bool {
	return at.asserted(ctx, guest.CallAloof, replica, class)
}
