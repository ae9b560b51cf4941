package plugin

import (
	"context"
	"encoding/binary"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var _ contractv1.Mover = (*Policy)(nil)

// mover is a guest that knows which answers of its plugins changed.
type mover interface {
	// moved lists the nodes about which plugin i may answer otherwise than at the
	// moment since; known is false if it may about any.
	moved(i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool, err error)
}

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
	err := at.unit.ask(ctx, at.name, callMoved, replica, func(_ context.Context, g guest, k int) (err error) {
		if m, ok := g.(mover); ok {
			now, nodes, known, err = m.moved(k, class, since)
		}
		return err
	})
	if err != nil {
		return 0, nil, false
	}
	return now, nodes, known
}

// roomForMoved is how many words an answer of pintle_moved may have: with more
// nodes than that all are asked about.
const roomForMoved = 8 << 10

func (g *wasmGuest) moved(i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool, err error) {
	if g.movedFn == nil {
		return 0, nil, false, nil
	}
	if _, err := g.buffer(&g.out, 4*roomForMoved); err != nil {
		return 0, nil, false, err
	}
	g.stack = [6]uint64{uint64(i), uint64(class), since, uint64(g.out.pointer), roomForMoved}
	if err := g.invoke(g.movedFn, g.timeout); err != nil {
		return 0, nil, false, err
	}
	if err := g.answered(); err != nil {
		return 0, nil, false, err
	}
	view, err := g.buffer(&g.out, 4*roomForMoved)
	if err != nil {
		return 0, nil, false, err
	}
	now = binary.LittleEndian.Uint64(view)
	n := binary.LittleEndian.Uint32(view[8:])
	if n == allNodes {
		return now, nil, false, nil
	}
	if n > roomForMoved-3 {
		return 0, nil, false, g.outOfRange("%d nodes moved, in %d words", n, roomForMoved)
	}
	g.movedNodes = g.movedNodes[:0]
	for k := range int(n) {
		g.movedNodes = append(g.movedNodes, binary.LittleEndian.Uint32(view[12+4*k:]))
	}
	return now, g.movedNodes, true, nil
}
