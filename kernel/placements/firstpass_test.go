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

// BenchmarkFirstPass is what each plugin of the modern set takes for a class that is
// new, over 5,000 nodes with two pods each, in WASM: what it prepares for the class
// is in it.
func BenchmarkFirstPass(b *testing.B) {
	directory := buildBundle(b, "modern")
	host, err := plugin.New(plugin.Config{
		Directories: []string{directory}, Modules: testModules, StartTimeout: 2 * time.Minute, CallTimeout: 30 * time.Second,
		Bundles: []plugin.BundleConfig{{Name: "modern", Transport: manifest.TransportWASM}}, Profiles: []plugin.Profile{modern},
	}, plugin.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	defer func() { cancel(); <-done }()
	<-host.Ready()
	p := host.Source(modern.SchedulerName).Policy().(*plugin.Policy)
	const count = 5000
	podOf := func(k uint32) *contractv1.Pod {
		return &contractv1.Pod{
			Namespace: "a", Labels: map[string]string{"app": fmt.Sprint("app-", k%shapes)}, SchedulerName: modern.SchedulerName,
			Containers: []*contractv1.Container{{Name: "c", Image: "registry/image:v1"}},
			Requests:   &contractv1.Resources{MilliCpu: 100 + int64(k%shapes), Memory: 200 << 20}, NonZeroMilliCpu: 100 + int64(k%shapes), NonZeroMemory: 200 << 20,
		}
	}
	set := func(class uint32) *contractv1.Operation {
		return &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: class, Pod: podOf(class)}}}
	}
	class := uint32(1)
	whole := &contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{set(class)}}
	room := &contractv1.Resources{MilliCpu: 16000, Memory: 64 << 30, Pods: 110}
	for i := range uint32(count) {
		name := fmt.Sprint("node-", i)
		whole.Operations = append(whole.Operations, &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: i, Node: &contractv1.Node{
			Name: name, Uid: name, Capacity: room, Allocatable: room, Labels: map[string]string{
				hostLabel: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", zoneLabel: fmt.Sprint("zone-", i%3), "pool": fmt.Sprint("pool-", i%10),
			},
		}}}})
		for k := range uint32(2) {
			pod := podOf(i + k)
			pod.Name, pod.Uid = fmt.Sprint("pod-", i, "-", k), fmt.Sprint("uid-", i, "-", k)
			whole.Operations = append(whole.Operations, &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: i, Pod: pod}}})
		}
	}
	if err := p.Apply(ctx, whole); err != nil {
		b.Fatal(err)
	}
	all := make([]uint32, count)
	for i := range all {
		all[i] = uint32(i)
	}
	verdicts, scores := make([]uint32, count), make([]int64, count)
	for p.Filter(ctx, 0, class, all[:1], verdicts[:1]) != nil || verdicts[0] != 0 {
		time.Sleep(time.Millisecond)
	}
	generation := whole.Generation
	measured := func(name string, ask func() error) {
		b.Run(name, func(b *testing.B) {
			began, i := processorTime(b), 0
			for b.Loop() {
				generation++
				remove := &contractv1.Operation{Op: &contractv1.Operation_ClassRemove{ClassRemove: class}}
				class++
				if err := p.Apply(ctx, &contractv1.Delta{Generation: generation, Operations: []*contractv1.Operation{remove, set(class)}}); err != nil {
					b.Fatal(err)
				}
				if err := ask(); err != nil {
					b.Fatal(err)
				}
				i++
			}
			b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(i)/1000, "cpu-µs/op")
		})
	}
	for i, info := range p.Predicates() {
		measured(info.Name, func() error { return p.Filter(ctx, i, class, all, verdicts) })
	}
	for i, info := range p.Priorities() {
		measured(info.Name, func() error { return p.Score(ctx, i, class, all, scores) })
	}
	measured("all", func() error {
		for i := range p.Predicates() {
			if err := p.Filter(ctx, i, class, all, verdicts); err != nil {
				return err
			}
		}
		for i := range p.Priorities() {
			if err := p.Score(ctx, i, class, all, scores); err != nil {
				return err
			}
		}
		return nil
	})
}
