package resultcache

import "math"

// totalBlock is how many nodes share one entry of the summary. A changed
// node costs a look at its block and one at each other's summary.
const totalBlock = 64

// none is the total of a node that does not fit.
const none = math.MinInt64

// Totals are the total score of each node that fits, by node index, so summarised
// that the best is found without a look at each.
type Totals struct {
	totals []int64
	best   []int64 // by block: the largest total in it
	ties   []int   // by block: how many nodes have that

	most int64 // of all
	tied int
}

// resize makes room for n nodes.
func (t *Totals) resize(n int) {
	n = (n + totalBlock - 1) / totalBlock * totalBlock
	t.totals = grow(t.totals, n, none)
	t.best = grow(t.best, n/totalBlock, none)
	t.ties = grow(t.ties, n/totalBlock, 0)
}

// clear leaves no node with a total.
func (t *Totals) clear() {
	for n := range t.totals {
		t.totals[n] = none
	}
}

// set gives a node another total.
func (t *Totals) set(n uint32, total int64) {
	before := t.totals[n]
	if t.totals[n] = total; before == total {
		return
	}
	block := int(n) / totalBlock
	switch best := t.best[block]; {
	case total > best:
		t.best[block], t.ties[block] = total, 1
	case before == best && t.ties[block] == 1:
		t.summarise(block)
	case before == best:
		t.ties[block]--
	case total == best && total != none:
		t.ties[block]++
	}
}

// drop takes out a node, and knows at once what findMax would find if it was one of
// several on the best total.
func (t *Totals) drop(n uint32) {
	one := t.tied > 1 && t.totals[n] == t.most
	if t.set(n, none); one {
		t.tied--
	} else {
		t.findMax()
	}
}

// summarise works out a block's entry.
func (t *Totals) summarise(block int) {
	best, ties := int64(none), 0
	for _, total := range t.totals[block*totalBlock : (block+1)*totalBlock] {
		if total > best {
			best, ties = total, 0
		}
		if total == best && total != none {
			ties++
		}
	}
	t.best[block], t.ties[block] = best, ties
}

// summariseAll works out every entry.
func (t *Totals) summariseAll() {
	for block := range t.best {
		t.summarise(block)
	}
}

// findMax finds the best total and counts the nodes that have it.
func (t *Totals) findMax() {
	t.most, t.tied = none, 0
	for block, best := range t.best {
		if best > t.most {
			t.most, t.tied = best, 0
		}
		if best == t.most {
			t.tied += t.ties[block]
		}
	}
}

// Nth returns the nth of the nodes on the best total, in order of index.
func (t *Totals) Nth(n int) uint32 {
	for block, best := range t.best {
		if best != t.most {
			continue
		}
		if n >= t.ties[block] {
			n -= t.ties[block]
			continue
		}
		for at := block * totalBlock; ; at++ {
			if t.totals[at] != best {
				continue
			}
			if n == 0 {
				return uint32(at)
			}
			n--
		}
	}
	return 0 // no node fits
}

// Tops are the nodes on the best total, in order of index.
func (t *Totals) Tops() []uint32 {
	list := make([]uint32, 0, t.tied)
	for n, total := range t.totals {
		if total == t.most && total != none {
			list = append(list, uint32(n))
		}
	}
	return list
}

// topNodes are the best nodes by total, the winner first, then by total and index.
func (t *Totals) topNodes(winner uint32, most int) []TopNode {
	top := make([]TopNode, 1, most)
	top[0] = TopNode{winner, t.totals[winner]}
	for block, best := range t.best {
		// Of those that are equal to the last one, the first stay.
		if best == none || len(top) == most && best <= top[most-1].Total {
			continue
		}
		for at := block * totalBlock; at < (block+1)*totalBlock; at++ {
			total := t.totals[at]
			if total == none || uint32(at) == winner || len(top) == most && total <= top[most-1].Total {
				continue
			}
			if len(top) < most {
				top = append(top, TopNode{})
			}
			k := len(top) - 1
			for ; k > 1 && top[k-1].Total < total; k-- {
				top[k] = top[k-1]
			}
			top[k] = TopNode{uint32(at), total}
		}
	}
	return top
}

// Best is the best total, and Tied how many nodes have it.
func (t *Totals) Best() int64 { return t.most }
func (t *Totals) Tied() int   { return t.tied }

// Of is the total of a node that fits.
func (t *Totals) Of(n uint32) int64 { return t.totals[n] }

// Add adds to the total of a node that fits. Totals are complete again with SumUp.
func (t *Totals) Add(n uint32, score int64) { t.totals[n] += score }

// SumUp works out the best total after Add.
func (t *Totals) SumUp() {
	t.summariseAll()
	t.findMax()
}
