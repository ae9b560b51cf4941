package plugin

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/wasm"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// BenchmarkCrossing is what the parts of a question about one node cost: the whole,
// what the guest's side of the host adds to the call, the call with the predicate in
// it, and one of an export that does nothing.
func BenchmarkCrossing(b *testing.B) {
	const count = 5000
	cfg := testConfig(b, manifest.TransportWASM, "FitsCPU", "MatchesLabels")
	cfg.MemoryLimit = 1 << 30 // pods come and none goes
	h := runHost(b, cfg, nil)
	p := h.Source("s").Policy().(*Policy)
	if err := p.Apply(b.Context(), replica(count, 1)); err != nil {
		b.Fatal(err)
	}
	waitSound(b, p, 1)
	all, out := indexes(count), make([]uint32, 1)
	nodes := all[:1]
	b.Run("Filter", func(b *testing.B) {
		perOp(b, func(int) {
			if err := p.Filter(b.Context(), 0, 7, nodes, out); err != nil {
				b.Fatal(err)
			}
		})
	})
	e := &contractv1.Evaluation{}
	together := func(node uint32) {
		*e = contractv1.Evaluation{Class: 7, Nodes: all[node : node+1], Filters: append(e.Filters[:0], contractv1.FilterQuestion{Predicate: 0})}
		if p.Evaluate(b.Context(), e); len(e.Filters[0].Verdicts) != 1 {
			b.Fatal("it is not answered")
		}
	}
	b.Run("Evaluate", func(b *testing.B) { perOp(b, func(i int) { together(uint32(i % count)) }) })
	u := p.filters[0].unit
	generation, n := p.replica, 0
	name := strings.Repeat("pod-4", 8)
	pod, add := &contractv1.Pod{Namespace: "d", Name: name[:20], Requests: &contractv1.Resources{MilliCpu: 1}}, &contractv1.PodAdd{Class: 7}
	delta := &contractv1.Delta{Operations: []*contractv1.Operation{{Op: &contractv1.Operation_PodAdd{PodAdd: add}}}}
	next := func() (node uint32) {
		generation++
		n++
		uid := []byte("5f0c9b1e-0000-4000-8000-000000000000")
		strconv.AppendInt(uid[:len(uid)-9], int64(100_000_000+n), 10)
		pod.Uid, add.Node, add.Pod, delta.Generation = string(uid), uint32(n%count), pod, generation
		return add.Node
	}
	b.Run("Encode", func(b *testing.B) {
		perOp(b, func(int) {
			next()
			if _, err := guest.NewPart(delta); err != nil {
				b.Fatal(err)
			}
			generation--
		})
	})
	b.Run("Changed", func(b *testing.B) {
		perOp(b, func(int) {
			node := next()
			if err := p.Apply(b.Context(), delta); err != nil {
				b.Fatal(err)
			}
			together(node)
		})
	})
	g, i := u.guest.(*wasm.Guest), u.index[p.filters[0].name]
	b.Run("Guest", func(b *testing.B) {
		perOp(b, func(int) {
			if err := g.Filter(b.Context(), i, 7, nodes, out); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("One", func(b *testing.B) {
		perOp(b, func(int) {
			if _, err := g.FilterOne(i, 7, nodes[0]); err != nil {
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
