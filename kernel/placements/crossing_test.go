package placements

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// BenchmarkCrossing asks the default provider's set about one node of 5,000: each
// plugin alone, all in one call, and all with the delta of a pod that was placed.
func BenchmarkCrossing(b *testing.B) {
	directory := build(b)
	host, err := plugin.New(plugin.Config{
		Directories: []string{directory}, Modules: testModules, StartTimeout: 2 * time.Minute, CallTimeout: 30 * time.Second,
		Bundles:  []plugin.BundleConfig{{Name: "classic", Transport: manifest.TransportWASM}},
		Profiles: []plugin.Profile{{SchedulerName: profile.SchedulerName, Predicates: profile.Predicates, Priorities: profile.Priorities[:4]}},
	}, plugin.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-host.Ready()
	p := host.Source(profile.SchedulerName).Policy().(*plugin.Policy)
	const count = 5000
	whole := &contractv1.Delta{Generation: 1, Reset_: true}
	pod := &contractv1.Pod{
		Namespace: "a", Labels: map[string]string{"app": "web"}, SchedulerName: "default-scheduler",
		Containers: []*contractv1.Container{{Name: "c", Image: "registry/image:v1"}},
		Requests:   &contractv1.Resources{MilliCpu: 1, Memory: 1 << 10}, NonZeroMilliCpu: 1, NonZeroMemory: 1 << 10,
	}
	whole.Operations = append(whole.Operations, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: pod}}})
	room := &contractv1.Resources{MilliCpu: 1 << 40, Memory: 1 << 60, Pods: 1 << 40}
	for i := range uint32(count) {
		name := fmt.Sprint("node-", i)
		whole.Operations = append(whole.Operations, &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: i, Node: &contractv1.Node{
			Name: name, Uid: name, Capacity: room, Allocatable: room, Labels: map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", zoneLabel: fmt.Sprint("zone-", i%3), "pool": fmt.Sprint("pool-", i%10),
			},
		}}}})
	}
	if err := p.Apply(ctx, whole); err != nil {
		b.Fatal(err)
	}
	all := make([]uint32, count)
	for i := range all {
		all[i] = uint32(i)
	}
	verdicts, scores := make([]uint32, count), make([]int64, count)
	for p.Filter(ctx, 0, 1, all[:1], verdicts[:1]) != nil || verdicts[0] != 0 {
		time.Sleep(time.Millisecond)
	}
	measured := func(name string, work func(i int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			began, i := processorTime(b), 0
			for b.Loop() {
				work(i)
				i++
			}
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(i), "cpu-ns/op")
		})
	}
	for _, n := range []int{1, count} {
		for i, info := range p.Predicates() {
			measured(fmt.Sprintf("%d/%s", n, info.Name), func(int) {
				if err := p.Filter(ctx, i, 1, all[:n], verdicts[:n]); err != nil || verdicts[0] != 0 {
					b.Fatal(err, verdicts[0])
				}
			})
		}
		for i, info := range p.Priorities() {
			measured(fmt.Sprintf("%d/%s", n, info.Name), func(int) {
				if err := p.Score(ctx, i, 1, all[:n], scores[:n]); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
	e := &contractv1.Evaluation{}
	together := func(node uint32) {
		*e = contractv1.Evaluation{Class: 1, Nodes: all[node : node+1], Filters: e.Filters[:0], Scores: e.Scores[:0]}
		for i := range p.Predicates() {
			e.Filters = append(e.Filters, contractv1.FilterQuestion{Predicate: i})
		}
		for i := range p.Priorities() {
			e.Scores = append(e.Scores, contractv1.ScoreQuestion{Priority: i})
		}
		p.Evaluate(ctx, e)
		if last := e.Scores[len(e.Scores)-1]; len(last.Scores) != 1 {
			b.Fatalf("%+v", e)
		}
	}
	measured("together", func(i int) { together(uint32(i % count)) })
	generation := whole.Generation
	measured("together with a delta", func(i int) {
		node := uint32(i % count)
		generation++
		if err := p.Apply(ctx, &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{{
			Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: node, Class: 1, Pod: &contractv1.Pod{Name: "pod", Uid: fmt.Sprint("5f0c9b1e-0000-4000-8000-", i)}}},
		}}}); err != nil {
			b.Fatal(err)
		}
		together(node)
	})
}
