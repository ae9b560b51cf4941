package wasm

import (
	"encoding/binary"
)

// roomForMoved is how many words an answer of pintle_moved may have: with more
// nodes than that all are asked about.
const roomForMoved = 8 << 10

func (g *Guest) Moved(i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool, err error) {
	if g.movedFn == nil {
		return 0, nil, false, nil
	}
	if _, err := g.buffer(&g.out, 4*roomForMoved); err != nil {
		return 0, nil, false, err
	}
	g.stack = [6]uint64{uint64(i), uint64(class), since, uint64(g.out.pointer), roomForMoved}
	if err := g.invoke(g.movedFn, g.Timeout); err != nil {
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
