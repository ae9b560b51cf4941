package plugincmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/plugin/benchmark"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

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
			if _, err := os.Stat(filepath.Join(dir, manifest.File)); err != nil && len(args) == 1 {
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
			list, err := benchmark.Run(cmd.Context(), benchmark.Options{
				Directory: mustAbs(dir), Nodes: nodes, Spend: spend, Log: cli.Warnings(),
				Tell: func(what string) { p.Tell(what, 0, 0, cli.Count) },
			})
			p.Done()
			if errors.As(err, new(benchmark.BundleError)) {
				return cli.UsageFault(fmt.Errorf("plugin bench: %w", err))
			}
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

// builtIn finds a bundle beside this binary, where a kernel looks too; otherwise
// it returns err.
func builtIn(name string, err error) (string, error) {
	executable, failed := os.Executable()
	if failed != nil {
		return "", err
	}
	b, failed := manifest.Find([]string{filepath.Join(filepath.Dir(executable), "plugins")}, name)
	if failed != nil {
		return "", err
	}
	return b.Directory, nil
}
