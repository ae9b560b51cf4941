package plugin

import (
	"sync"
	"testing"
	"time"
)

// BenchmarkCrossing is what the parts of a question about one node cost: the whole,
// what the guest's side of the host adds to the call, the call with the predicate in
// it, and one of an export that does nothing.
func BenchmarkCrossing(b *testing.B) {
	h := runHost(b, testConfig(b, TransportWASM, "FitsCPU", "MatchesLabels"), nil)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(b.Context(), replica(64, 1)); err != nil {
		b.Fatal(err)
	}
	waitSound(b, p, 1)
	nodes, out := indexes(1), make([]uint32, 1)
	b.Run("Filter", func(b *testing.B) {
		perOp(b, func(int) {
			if err := p.Filter(b.Context(), 0, 7, nodes, out); err != nil {
				b.Fatal(err)
			}
		})
	})
	u := p.filters[0].unit
	g, i := u.guest.(*wasmGuest), u.index[p.filters[0].name]
	b.Run("Guest", func(b *testing.B) {
		perOp(b, func(int) {
			if err := g.filter(b.Context(), i, 7, nodes, out); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("Call", func(b *testing.B) {
		perOp(b, func(int) {
			g.stack = [6]uint64{uint64(i), 7, uint64(g.nodes.pointer), 1, uint64(g.out.pointer)}
			if err := g.filterFn.CallWithStack(g.ctx, g.stack[:]); err != nil || g.stack[0] != 0 {
				b.Fatal(err, g.stack[0])
			}
		})
	})
	version := g.instance.ExportedFunction("pintle_abi_version")
	b.Run("Bare", func(b *testing.B) {
		perOp(b, func(int) {
			if err := version.CallWithStack(g.ctx, g.stack[:]); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("Clock", func(b *testing.B) {
		perOp(b, func(int) { _ = time.Now() })
	})
	base := time.Now()
	b.Run("Since", func(b *testing.B) {
		perOp(b, func(int) { _ = time.Since(base) })
	})
	var mu sync.Mutex
	b.Run("Mutex", func(b *testing.B) {
		perOp(b, func(int) { mu.Lock(); defer mu.Unlock() })
	})
}
