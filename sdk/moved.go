package sdk

// moveLog is what a followed state said since it was prepared: the nodes about
// which its plugin may answer otherwise, in order.
type moveLog struct {
	epoch uint32 // of what nodes hold; another one: any node may have moved
	nodes []uint32
}

// maxMoves bounds a log; who has not asked for so long is told of all nodes.
const maxMoves = 1 << 14

func (l *moveLog) take(g *Guest, nodes []uint32, all bool) {
	if all || len(l.nodes)+len(nodes) > maxMoves {
		l.begin(g)
		return
	}
	l.nodes = append(l.nodes, nodes...)
}

// begin starts another epoch.
func (l *moveLog) begin(g *Guest) {
	g.epochs++
	l.epoch, l.nodes = g.epochs, l.nodes[:0]
}

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
	now = uint64(l.epoch)<<32 | uint64(len(l.nodes))
	if since>>32 != uint64(l.epoch) || int(uint32(since)) > len(l.nodes) {
		return now, nil, true, nil
	}
	return now, l.nodes[uint32(since):], false, nil
}
