package plugin

import (
	"context"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Mover = (*Policy)(nil)

// MovedVerdicts lists the nodes about which predicate i may answer otherwise.
func (p *Policy) MovedVerdicts(ctx context.Context, i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool) {
	return p.filters[i].moved(ctx, p.replica, class, since)
}

// MovedScores lists the nodes to which priority i may give another raw score.
func (p *Policy) MovedScores(ctx context.Context, i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool) {
	return p.scorers[i].moved(ctx, p.replica, class, since)
}

// moved asks the plugin; one that fails knows nothing, and is asked about all nodes.
func (at place) moved(ctx context.Context, replica uint64, class uint32, since uint64) (now uint64, nodes []uint32, known bool) {
	err := at.unit.ask(ctx, at.name, guest.CallMoved, replica, func(_ context.Context, g guest.Guest, k int) (err error) {
		if m, ok := g.(guest.Mover); ok {
			now, nodes, known, err = m.Moved(k, class, since)
		}
		return err
	})
	if err != nil {
		return 0, nil, false
	}
	return now, nodes, known
}
