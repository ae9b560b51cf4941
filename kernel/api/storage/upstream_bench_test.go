package storage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/utils/clock"
)

// Upstream's own benchmarks (k8s.io/apiserver/pkg/storage/testing), with fewer pods than the 150,000 that upstream
// takes: they are created with a sync to disk each. For one figure:
//
//	go test ./kernel/api/storage -run '^$' -bench 'Upstream/List/RV=/Scope=Cluster'
func BenchmarkUpstream(b *testing.B) {
	for name, run := range upstreamBenchmarks(20, 250, 200) {
		b.Run(name, run)
	}
}

// upstreamBenchmarks are all of them, over a storage with an index of node names as kube-apiserver has it for pods.
func upstreamBenchmarks(namespaces, podsEach, nodes int) map[string]func(*testing.B) {
	withPods := func(b *testing.B) (*fixture, storagetesting.BenchmarkData) {
		b.Helper()
		f, data := newFixture(b, Options{}), storagetesting.PrepareBenchmarkData(namespaces, podsEach, nodes)
		f.trigger = storage.IndexerFuncs{"spec.nodeName": func(obj runtime.Object) string { return obj.(*example.Pod).Spec.NodeName }}
		f.triggerFields = []string{"spec.nodeName"}
		var wg sync.WaitGroup
		for part := range slices.Chunk(data.Pods, (len(data.Pods)+63)/64) {
			wg.Go(func() {
				if err := storagetesting.PrecreateBenchmarkPods(context.Background(), f, storagetesting.BenchmarkData{Pods: part}); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
		return f, data
	}
	return map[string]func(*testing.B){
		"WriteThroughput": func(b *testing.B) {
			f, data := withPods(b)
			storagetesting.RunBenchmarkWriteThroughput(context.Background(), b, f, data, true, storagetesting.NewWatchLatencyTracker(clock.RealClock{}))
		},
		"List": func(b *testing.B) {
			f, data := withPods(b)
			storagetesting.RunBenchmarkStoreList(context.Background(), b, f, data, true)
		},
		"Stats": func(b *testing.B) {
			f, _ := withPods(b)
			storagetesting.RunBenchmarkStoreStats(context.Background(), b, f)
		},
	}
}

// The benchmarks of upstream's suite run through, each once.
func TestUpstreamBenchmarks(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime")
	before := benchtime.Value.String()
	if err := benchtime.Value.Set("1x"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := benchtime.Value.Set(before); err != nil {
			t.Error(err)
		}
	}()
	for name, run := range upstreamBenchmarks(4, 30, 10) {
		t.Run(name, func(t *testing.T) {
			err := errors.New("it did not run")
			testing.Benchmark(func(b *testing.B) {
				defer func() {
					if err = nil; b.Failed() {
						err = fmt.Errorf("it failed")
					}
				}()
				run(b)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
