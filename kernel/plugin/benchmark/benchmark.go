package benchmark

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	"pintle.dev/pintle/sdk/conformance"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Result is what one plugin of one build costs. Times are medians.
type Result struct {
	Plugin    string `json:"plugin"`
	Kind      string `json:"kind"`
	Transport string `json:"transport"`
	Nodes     int    `json:"nodes"`
	// Crossing is one question about one node, in nanoseconds.
	Crossing int64 `json:"crossingNanoseconds"`
	// Pass is one question about all nodes, and Node that by the number of nodes.
	Pass int64 `json:"passNanoseconds"`
	Node int64 `json:"nodeNanoseconds"`
	// Changed is one changed node: its delta, and a question about it.
	Changed int64 `json:"changedNanoseconds"`
	// Memory is that of the bundle with the whole replica, in bytes.
	Memory int64 `json:"memoryBytes"`
}

// Options say what is measured.
type Options struct {
	// Directory is the absolute path of a sealed bundle.
	Directory string
	// Nodes is how many nodes the random cluster has.
	Nodes int
	// Spend is how long each figure is measured.
	Spend time.Duration
	Log   *slog.Logger
	// Tell is called with what is being done.
	Tell func(string)
}

// BundleError says that a bundle holds nothing that can be measured.
type BundleError struct{ error }

func (e BundleError) Unwrap() error { return e.error }

// Run measures each build of a bundle. A bundle that cannot be measured is a BundleError.
func Run(ctx context.Context, o Options) ([]Result, error) {
	dir := o.Directory
	m, err := manifest.Read(filepath.Join(dir, manifest.File))
	if err != nil {
		return nil, BundleError{err}
	}
	var names [2][]string // predicates and priorities
	for _, e := range m.Plugins {
		switch e.Kind {
		case sdk.KindPredicate:
			names[0] = append(names[0], e.Name)
		case sdk.KindPriority:
			names[1] = append(names[1], e.Name)
		}
	}
	if len(names[0])+len(names[1]) == 0 {
		return nil, BundleError{fmt.Errorf("%s holds no predicate and no priority", m.Name)}
	}
	var list []Result
	for _, build := range []struct {
		transport string
		artifact  *manifest.Artifact
	}{{manifest.TransportWASM, m.Artifacts.WASM}, {manifest.TransportProcess, m.Artifacts.Process}} {
		if build.artifact == nil {
			continue
		}
		o.Tell("measuring " + build.transport)
		b := &bench{dir: dir, name: m.Name, transport: build.transport, nodes: o.Nodes, spend: o.Spend, log: o.Log, predicates: names[0], priorities: names[1]}
		one, err := b.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s as %s: %w", m.Name, build.transport, err)
		}
		memory, err := b.memory(ctx, filepath.Join(dir, build.artifact.Path))
		if err != nil {
			return nil, err
		}
		for i := range one {
			one[i].Memory = memory
		}
		list = append(list, one...)
	}
	if len(list) == 0 {
		return nil, BundleError{fmt.Errorf("%s: nothing is built and sealed; pintle plugin build does both", dir)}
	}
	return list, nil
}

// bench measures one build of a bundle.
type bench struct {
	dir, name, transport   string
	nodes                  int
	spend                  time.Duration
	log                    *slog.Logger
	predicates, priorities []string
	world                  *conformance.World
}

// Replica implements contractv1.ReplicaSource.
func (b *bench) Replica() *contractv1.Delta { return b.world.Whole() }

// benchProfile is the profile that the host is asked through.
const benchProfile = "bench"

func (b *bench) run(ctx context.Context) ([]Result, error) {
	scratch, err := os.MkdirTemp("", "pintle-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	b.world = conformance.NewWorld(1, b.nodes, conformance.Vocabulary{})
	profile := plugin.Profile{SchedulerName: benchProfile, Predicates: b.predicates}
	for _, name := range b.priorities {
		profile.Priorities = append(profile.Priorities, plugin.WeightedPriority{Name: name, Weight: 1})
	}
	host, err := plugin.New(plugin.Config{
		RunDirectory: filepath.Join(scratch, "run"),
		CallTimeout:  10 * time.Second, StartTimeout: 30 * time.Second,
		Bundles:  []plugin.BundleConfig{{Name: b.name, Transport: b.transport, Directory: b.dir}},
		Profiles: []plugin.Profile{profile},
	}, plugin.Deps{Log: b.log})
	if err != nil {
		return nil, err
	}
	host.SetReplicaSource(b)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	list, err := b.ask(ctx, host, done)
	cancel()
	if ended := <-done; err == nil {
		err = ended
	}
	return list, err
}

// ask waits for the host, feeds it and measures.
func (b *bench) ask(ctx context.Context, host *plugin.Host, done chan error) ([]Result, error) {
	select {
	case <-host.Ready():
	case err := <-done:
		done <- nil
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	policy := host.Source(benchProfile).Policy()
	if policy == nil {
		return nil, errors.New("it did not start")
	}
	if err := policy.Apply(ctx, b.world.Whole()); err != nil {
		return nil, err
	}
	if p, ok := policy.(contractv1.Preparing); ok {
		for !p.Prepared(ctx) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	}
	nodes := b.world.Nodes()
	verdicts, scores := make([]uint32, len(nodes)), make([]int64, len(nodes))
	var list []Result
	for i, name := range b.predicates {
		m, err := b.measure(ctx, policy, func(nodes []uint32) error {
			return policy.Filter(ctx, i, conformance.Class, nodes, verdicts[:len(nodes)])
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.Plugin, m.Kind = name, sdk.KindPredicate
		list = append(list, m)
	}
	for i, name := range b.priorities {
		m, err := b.measure(ctx, policy, func(nodes []uint32) error {
			return policy.Score(ctx, i, conformance.Class, nodes, scores[:len(nodes)])
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		m.Plugin, m.Kind = name, sdk.KindPriority
		list = append(list, m)
	}
	return list, nil
}

func (b *bench) measure(ctx context.Context, policy contractv1.Policy, ask func(nodes []uint32) error) (m Result, err error) {
	nodes := b.world.Nodes()
	m = Result{Transport: b.transport, Nodes: len(nodes)}
	if m.Crossing, err = b.median(100, func() error { return ask(nodes[:1]) }); err != nil {
		return m, err
	}
	if m.Pass, err = b.median(1, func() error { return ask(nodes) }); err != nil {
		return m, err
	}
	m.Node = m.Pass / int64(len(nodes))
	m.Changed, err = b.median(1, func() error {
		delta := b.world.Touch(nodes[0])
		if err := policy.Apply(ctx, delta); err != nil {
			return err
		}
		return ask(nodes[:1])
	})
	return m, err
}

// median runs work for the time that is to be spent, each calls together, and
// returns what one takes.
func (b *bench) median(each int, work func() error) (int64, error) {
	var took []int64
	for end := time.Now().Add(b.spend); len(took) < 5 || time.Now().Before(end); {
		began := time.Now()
		for range each {
			if err := work(); err != nil {
				return 0, err
			}
		}
		took = append(took, int64(time.Since(began))/int64(each))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// memory is what the build holds with the whole replica in it, in parts as the
// kernel hands them over.
func (b *bench) memory(ctx context.Context, path string) (int64, error) {
	r, end, err := conformance.OpenBuild(ctx, path)
	if err != nil {
		return 0, err
	}
	defer end(ctx)
	a, err := r.Open(ctx)
	if err != nil {
		return 0, err
	}
	err = applyInParts(ctx, a, b.world.Whole())
	held := a.MemoryBytes()
	return held, errors.Join(err, a.Close(ctx))
}

// partOperations is how many operations a delta has at most (ABI.md).
const partOperations = 256

func applyInParts(ctx context.Context, a artifact.Artifact, whole *contractv1.Delta) error {
	for at := 0; at < len(whole.GetOperations()); at += partOperations {
		part := &contractv1.Delta{
			Generation: whole.GetGeneration(), Reset_: at == 0,
			Operations: whole.GetOperations()[at:min(at+partOperations, len(whole.GetOperations()))],
		}
		if err := a.Apply(ctx, part); err != nil {
			return err
		}
	}
	return nil
}
