package plugin

import (
	"fmt"
	"syscall"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// processorTime is what this process used; on a machine that does other things
// it says more than the clock.
func processorTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// perOp reports the processor time of an operation.
func perOp(b *testing.B, work func(i int)) {
	b.ReportAllocs()
	began, i := processorTime(b), 0
	for b.Loop() {
		work(i)
		i++
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(i), "cpu-ns/op")
}

// BenchmarkPass asks a module about 5,000 nodes, about one, and about one that
// changed, with the delta of the pod that was bound to it.
func BenchmarkPass(b *testing.B) {
	const count = 5000
	h := runHost(b, testConfig(b, manifest.TransportWASM, "FitsCPU", "MatchesLabels"), nil)
	p := h.Source("s").Policy()
	whole := replica(count, 1)
	if err := p.Apply(b.Context(), whole); err != nil {
		b.Fatal(err)
	}
	waitSound(b, p, 1)
	nodes, out, scores := indexes(count), make([]uint32, count), make([]int64, count)
	for _, nodes := range [][]uint32{nodes, nodes[:1]} {
		for i, info := range p.Predicates() {
			b.Run(fmt.Sprintf("%s/%d", info.Name, len(nodes)), func(b *testing.B) {
				perOp(b, func(int) {
					if err := p.Filter(b.Context(), i, 7, nodes, out[:len(nodes)]); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
		b.Run(fmt.Sprintf("Score/%d", len(nodes)), func(b *testing.B) {
			perOp(b, func(int) {
				if err := p.Score(b.Context(), 0, 7, nodes, scores[:len(nodes)]); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	b.Run("Changed", func(b *testing.B) {
		generation := p.(*Policy).replica
		perOp(b, func(i int) {
			generation++
			if err := p.Apply(b.Context(), &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{{
				Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: uint32(i % count), Pod: &contractv1.Pod{
					Namespace: "default", Name: fmt.Sprint("bound-", i), Uid: fmt.Sprint("0a1b2c3d-0000-4000-8000-", i), NodeName: fmt.Sprint("n", i%count), Labels: map[string]string{"app": "web"},
					Containers: []*contractv1.Container{{Name: "c", Image: "i"}}, Requests: &contractv1.Resources{MilliCpu: 1, Memory: 1 << 26},
				}}},
			}}}); err != nil {
				b.Fatal(err)
			}
			if err := p.Filter(b.Context(), 0, 7, nodes[i%count:i%count+1], out[:1]); err != nil {
				b.Fatal(err)
			}
		})
	})
}
