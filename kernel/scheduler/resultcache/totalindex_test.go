package resultcache

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pintle.dev/pintle/sdk"
)

// An index of totals that was changed node by node says what one look at all nodes says.
func TestTallyIsAFullLook(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		var y Totals
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
			var order []TopNode
			for node, total := range want {
				order = append(order, TopNode{node, total})
			}
			slices.SortFunc(order, func(a, b TopNode) int { return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Node, b.Node)) })
			var tops []uint32
			for _, l := range order {
				if l.Total == order[0].Total {
					tops = append(tops, l.Node)
				}
			}
			y.findMax()
			k := random.IntN(len(tops))
			if y.most != order[0].Total || y.tied != len(tops) || y.Nth(k) != tops[k] || !slices.Equal(y.Tops(), tops) {
				t.Fatalf("seed %d: best %d on %v, want %d on %v", seed, y.most, y.Tops(), order[0].Total, tops)
			}
			if random.IntN(4) == 0 {
				gone := order[random.IntN(min(3, len(order)))]
				y.drop(gone.Node)
				dropped := y
				if y.findMax(); y.most != dropped.most || y.tied != dropped.tied {
					t.Fatalf("seed %d: without node %d best %d on %d, want %d on %d", seed, gone.Node, dropped.most, dropped.tied, y.most, y.tied)
				}
				y.set(gone.Node, gone.Total)
				y.findMax()
			}
			winner := order[random.IntN(len(order))]
			leaders := append([]TopNode{winner}, slices.DeleteFunc(slices.Clone(order), func(l TopNode) bool { return l == winner })...)
			if got := y.topNodes(winner.Node, 4); !slices.Equal(got, leaders[:min(4, len(leaders))]) {
				t.Fatalf("seed %d: leaders %v, want %v", seed, got, leaders)
			}
		}
	}
}

// The formulas of sdk/ABI.md, at the ends of what a raw score may be.
func TestNormalisedScores(t *testing.T) {
	const least, most = math.MinInt64, math.MaxInt64
	for _, tc := range []struct {
		kind         sdk.Normalize
		raw, largest int64
		want         int64
	}{
		{sdk.NormalizeMax, 5, 10, 5}, {sdk.NormalizeMax, 1, 3, 3}, {sdk.NormalizeMax, 0, 0, 0}, {sdk.NormalizeMax, most, most, 10},
		{sdk.NormalizeReverseMax, 1, 3, 6}, {sdk.NormalizeReverseMax, 0, 0, 10}, {sdk.NormalizeReverseMax, least, 7, 10},
		{sdk.NormalizeReverse, 1, 3, 7}, {sdk.NormalizeReverse, 0, 0, 10}, {sdk.NormalizeReverse, most, most, 0},
		{sdk.NormalizeMax, -5, 10, 0}, {sdk.NormalizeMax, least, most, 0}, {sdk.NormalizeReverse, least, most, 10},
	} {
		if got := scale(tc.kind, 10, tc.raw, tc.largest); got != tc.want {
			t.Errorf("%s of %d, largest %d: %d, want %d", tc.kind, tc.raw, tc.largest, got, tc.want)
		}
	}
	for _, tc := range [][4]int64{{5, 0, 10, 5}, {-5, -10, 0, 5}, {3, 3, 3, 0}, {most, least, most, 10}, {0, least, most, 5}, {least, least, most, 0}} {
		if got := between(10, tc[0], tc[1], tc[2]); got != tc[3] {
			t.Errorf("min-max of %d from %d to %d: %d, want %d", tc[0], tc[1], tc[2], got, tc[3])
		}
	}
}
