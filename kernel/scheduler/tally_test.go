package scheduler

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A tally that was changed node by node says what one look at all nodes says.
func TestTallyIsAFullLook(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var y tally
		want := map[uint32]int64{}
		n := 0
		for range 3000 {
			if n == 0 || random.IntN(200) == 0 {
				n += 1 + random.IntN(100)
				y.resize(n)
			}
			node, total := uint32(random.IntN(n)), int64(random.IntN(5))
			if random.IntN(3) == 0 {
				y.set(node, none)
				delete(want, node)
			} else {
				y.set(node, total)
				want[node] = total
			}
			if len(want) == 0 {
				continue
			}
			var order []leader
			for node, total := range want {
				order = append(order, leader{node, total})
			}
			slices.SortFunc(order, func(a, b leader) int { return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.node, b.node)) })
			var tops []uint32
			for _, l := range order {
				if l.total == order[0].total {
					tops = append(tops, l.node)
				}
			}
			y.lead()
			k := random.IntN(len(tops))
			if y.most != order[0].total || y.tied != len(tops) || y.nth(k) != tops[k] || !slices.Equal(y.tops(), tops) {
				t.Fatalf("seed %d: best %d on %v, want %d on %v", seed, y.most, y.tops(), order[0].total, tops)
			}
			if random.IntN(4) == 0 {
				gone := order[random.IntN(min(3, len(order)))]
				y.drop(gone.node)
				dropped := y
				if y.lead(); y.most != dropped.most || y.tied != dropped.tied {
					t.Fatalf("seed %d: without node %d best %d on %d, want %d on %d", seed, gone.node, dropped.most, dropped.tied, y.most, y.tied)
				}
				y.set(gone.node, gone.total)
				y.lead()
			}
			winner := order[random.IntN(len(order))]
			leaders := append([]leader{winner}, slices.DeleteFunc(slices.Clone(order), func(l leader) bool { return l == winner })...)
			if got := y.leaders(winner.node, 4); !slices.Equal(got, leaders[:min(4, len(leaders))]) {
				t.Fatalf("seed %d: leaders %v, want %v", seed, got, leaders)
			}
		}
	}
}
