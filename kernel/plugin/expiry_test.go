package plugin

import (
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TestEnds: when answers end goes the whole way, asked alone, about one node, and
// together with others; a plugin that did not say that it asks for the time may not.
func TestEnds(t *testing.T) {
	hour := func(n int) int64 { return time.Date(2100, 1, 1, n, 0, 0, 0, time.UTC).UnixMilli() }
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			source := &testSource{delta: replica(5, 1)}
			h := runHost(t, testConfig(t, transport, "Ends", "FitsCPU", "AsksForTheTime"), source)
			p := h.Source("s").Policy().(*Policy)
			if err := p.Apply(t.Context(), source.delta); err != nil {
				t.Fatal(err)
			}
			if all := p.Predicates(); !all[0].Expires || all[1].Expires {
				t.Errorf("described as %+v", all)
			}
			out := make([]uint32, 5)
			for _, nodes := range [][]uint32{{2, 3}, {4}, {1}, {3, 1, 2}} {
				if err := p.Filter(t.Context(), 0, 7, nodes, out[:len(nodes)]); err != nil || out[0] != 0 {
					t.Fatalf("verdict %v, %v", out, err)
				}
				first := nodes[0]
				for _, n := range nodes {
					first = min(first, n)
				}
				if got := p.VerdictsUntil(0); got != hour(int(first)) {
					t.Errorf("about nodes %d: until %s", nodes, time.UnixMilli(got).UTC())
				}
			}
			if err := p.Filter(t.Context(), 1, 7, []uint32{0}, out[:1]); err != nil || p.VerdictsUntil(1) != 0 {
				t.Errorf("FitsCPU holds until %d, %v", p.VerdictsUntil(1), err)
			}
			e := &contractv1.Evaluation{Class: 7, Nodes: []uint32{3, 4}, Filters: []contractv1.FilterQuestion{{Predicate: 0}, {Predicate: 1}}}
			p.Evaluate(t.Context(), e)
			if e.Filters[0].Answered == nil || e.Filters[0].Until != hour(3) || e.Filters[1].Until != 0 {
				t.Errorf("together: %+v", e.Filters)
			}
			if err := p.Filter(t.Context(), 2, 7, []uint32{0}, out[:1]); err != nil || out[0] != unavailableVerdict {
				t.Errorf("a plugin that may not ask for the time answers %d, %v", out[0], err)
			}
		})
	}
}
