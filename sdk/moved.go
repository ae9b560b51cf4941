package sdk

import "math"

// moveLog is what a followed state said since it was prepared: the nodes about
// which its plugin may answer otherwise, in order.
type moveLog struct {
	epoch uint32 // of what nodes hold; another one: any node may have moved
	first uint32 // position of nodes[0] in the epoch
	nodes []uint32
}

// maxMoves bounds a log; who has not asked for so long is told of all nodes.
const maxMoves = 1 << 14

func (l *moveLog) take(g *Guest, nodes []uint32, all bool) {
	if all || len(nodes) > maxMoves || l.end() > math.MaxUint32-maxMoves {
		l.begin(g)
		return
	}
	if over := len(l.nodes) + len(nodes) - maxMoves; over > 0 {
		// More than that, so that it is not for each change.
		over = max(over, len(l.nodes)/2)
		l.first += uint32(over)
		l.nodes = l.nodes[:copy(l.nodes, l.nodes[over:])]
	}
	l.nodes = append(l.nodes, nodes...)
}

// begin starts another epoch.
func (l *moveLog) begin(g *Guest) {
	g.epochs++
	l.epoch, l.first, l.nodes = g.epochs, 0, l.nodes[:0]
}

func (l *moveLog) end() uint32 { return l.first + uint32(len(l.nodes)) }

// Moved lists the nodes about which plugin i may answer otherwise about a class
// than it did when now was since; all: about any of them. 0 is no moment.
func (g *Guest) Moved(i int, class uint32, since uint64) (now uint64, nodes []uint32, all bool, err error) {
	p, err := g.plugin(i, "")
	if err != nil {
		return 0, nil, true, err
	}
	if p.moved == nil {
		return 0, nil, true, nil
	}
	defer contain(p.name, &err)
	if err := g.ask(p, class); err != nil {
		return 0, nil, true, err
	}
	l := p.states[class].moves
	now = uint64(l.epoch)<<32 | uint64(l.end())
	if at := uint32(since); since>>32 == uint64(l.epoch) && at >= l.first && at <= l.end() {
		return now, l.nodes[at-l.first:], false, nil
	}
	return now, nil, true, nil
}
