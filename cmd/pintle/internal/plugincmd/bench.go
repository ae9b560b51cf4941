package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	"pintle.dev/pintle/sdk/conformance"
	"pintle.dev/pintle/sdk/contract/v1"
)

// measured is what one plugin of one build costs. Times are medians.
type measured struct {
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

func newPluginBenchCommand() *cobra.Command {
	var flags catalogFlags
	var output cli.OutputFlag
	var nodes int
	var spend time.Duration
	cmd := &cobra.Command{
		Use:   "bench [DIR|NAME]",
		Short: "Measure what the predicates and priorities of a bundle cost",
		Long: `Measure a sealed bundle, in a folder or installed under a name, in the kernel's own
plugin host on a random cluster:

  CROSSING  a question about one node
  PASS      a question about all nodes, nothing cached, and the same by node
  CHANGED   one node changed: its delta and a question about it
  MEMORY    of the bundle with the whole replica

Times are medians. Predicates and priorities are measured; other kinds are not
asked about nodes.

Exit codes: 0 measured; 1 the bundle failed; 2 wrong arguments or manifest, or
nothing to measure.`,
		Example: `  pintle plugin bench quiet
  pintle plugin bench quiet --nodes 1000 --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := oneDirectory(cmd, args)
			if err != nil {
				return err
			}
			if err := output.Check(); err != nil {
				return err
			}
			if nodes < 1 || nodes > 100_000 {
				return cli.UsageFault(fmt.Errorf("plugin bench: --nodes %d: want 1 to 100000", nodes))
			}
			if _, err := os.Stat(filepath.Join(dir, plugin.ManifestFile)); err != nil && len(args) == 1 {
				c, _, failed := flags.open()
				if failed != nil {
					return failed
				}
				if dir, failed = c.Find(args[0], "", ""); failed != nil {
					dir, failed = builtIn(args[0], failed)
				}
				if failed != nil {
					return cli.UsageFault(fmt.Errorf("plugin bench: %s is neither a folder with a manifest nor installed (%w); pintle plugin list shows what is loaded", args[0], failed))
				}
			}
			p := cli.NewProgress(os.Stderr)
			defer p.Done()
			list, err := benchBundle(cmd.Context(), dir, nodes, spend, func(what string) { p.Tell(what, 0, 0, cli.Count) })
			p.Done()
			if err != nil {
				return fmt.Errorf("plugin bench: %w", err)
			}
			return output.Print(cmd.OutOrStdout(), list, func(w io.Writer) {
				cli.Row(w, "PLUGIN", "KIND", "TRANSPORT", "NODES", "CROSSING", "PASS", "PER NODE", "CHANGED", "MEMORY")
				for _, m := range list {
					cli.Row(w, m.Plugin, m.Kind, m.Transport, m.Nodes, short(m.Crossing), short(m.Pass), short(m.Node), short(m.Changed), cli.BytesText(m.Memory))
				}
			})
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 5000, "nodes of the cluster")
	cmd.Flags().DurationVar(&spend, "time", time.Second, "how long to measure each figure")
	flags.register(cmd, false)
	output.Register(cmd, "table")
	return cmd
}

func short(nanoseconds int64) string {
	d := time.Duration(nanoseconds)
	switch {
	case d < time.Microsecond:
		return d.String()
	case d < time.Millisecond:
		return d.Round(10 * time.Nanosecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// benchBundle measures each build of the bundle in dir.
func benchBundle(ctx context.Context, dir string, nodes int, spend time.Duration, tell func(string)) ([]measured, error) {
	m, err := plugin.ReadManifest(filepath.Join(dir, plugin.ManifestFile))
	if err != nil {
		return nil, cli.UsageFault(err)
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
		return nil, cli.UsageFault(fmt.Errorf("%s holds no predicate and no priority", m.Name))
	}
	var list []measured
	for _, build := range []struct {
		transport string
		artifact  *plugin.Artifact
	}{{plugin.TransportWASM, m.Artifacts.WASM}, {plugin.TransportProcess, m.Artifacts.Process}} {
		if build.artifact == nil {
			continue
		}
		tell("measuring " + build.transport)
		b := &bench{dir: mustAbs(dir), name: m.Name, transport: build.transport, nodes: nodes, spend: spend, predicates: names[0], priorities: names[1]}
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
		return nil, cli.UsageFault(fmt.Errorf("%s: nothing is built and sealed; pintle plugin build does both", dir))
	}
	return list, nil
}

// bench measures one build of a bundle.
type bench struct {
	dir, name, transport   string
	nodes                  int
	spend                  time.Duration
	predicates, priorities []string
	world                  *conformance.World
}

// Replica implements contractv1.ReplicaSource.
func (b *bench) Replica() *contractv1.Delta { return b.world.Whole() }

// benchProfile is the profile that the host is asked through.
const benchProfile = "bench"

func (b *bench) run(ctx context.Context) ([]measured, error) {
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
	}, plugin.Deps{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
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
func (b *bench) ask(ctx context.Context, host *plugin.Host, done chan error) ([]measured, error) {
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
	var list []measured
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

func (b *bench) measure(ctx context.Context, policy contractv1.Policy, ask func(nodes []uint32) error) (m measured, err error) {
	nodes := b.world.Nodes()
	m = measured{Transport: b.transport, Nodes: len(nodes)}
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
	r, end, err := runner(ctx, path)
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

// builtIn finds a bundle beside this binary, where a kernel looks too; otherwise
// it returns err.
func builtIn(name string, err error) (string, error) {
	executable, failed := os.Executable()
	if failed != nil {
		return "", err
	}
	b, failed := plugin.Find([]string{filepath.Join(filepath.Dir(executable), "plugins")}, name)
	if failed != nil {
		return "", err
	}
	return b.Directory, nil
}
