package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/maintenance"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/simulation"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const simulateLong = `Say where pods would go, by the scheduler's own code on a picture of a cluster.
Nothing is written. The pods of -f (Pods, or workloads with a pod template, as
often as they have replicas) are placed one after the other, those of higher
priority first, each on what the ones before left. Pods that wait in the picture
do not take part.

The picture (--snapshot):
  live      the running kernel's cluster (the default)
  FILE      a YAML or JSON file of nodes and pods, such as
            kubectl get nodes,pods -A -o yaml > cluster.yaml
  BACKUP    a file that pintle store backup wrote

--with, --set and --disable ask for another policy than the present one; where
pods would then go otherwise is shown. --with runs the named build beside the
kernel, in this program. For files and backups the policy is that of the running
kernel, or of --config FILE, with what is installed in its data directory and the
bundles beside this program; it runs in this program too.

Extenders (HTTP servers) of the policy are asked about live pictures. About a file or
a backup they are not, for they know the cluster that runs, and the answer names them;
--extenders asks them nevertheless.

It takes an administrator for live pictures: cluster-admin, or a ClusterRole with
the verbs get and post on nonResourceURLs ` + inspect.Path + `*.

` + cli.ConnectHelp + `

Exit status: 0 done, also when pods fit nowhere; 1 it failed; 2 wrong flags,
arguments or files.`

// limits of what is read from files.
const (
	maxPodsFile = 32 << 20
	maxSnapshot = 512 << 20
)

type simulateFlags struct {
	connect  cli.ConnectFlags
	output   cli.OutputFlag
	nodes    nodesFlags
	files    []string
	with     []string
	set      []string
	disable  []string
	snapshot string
	config   string
	seed     uint64
	explain  bool
	ask      bool
}

func newSimulateCommand() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate -f PODS",
		Short: "Say where pods would go, and where by another policy; nothing is written",
		Long:  simulateLong,
		Example: `  pintle simulate -f pods.yaml
  pintle simulate -f pods.yaml --set LeastRequestedPriority=5 --disable EqualPriority
  pintle simulate -f pods.yaml --with classic=next/classic -o json
  pintle simulate -f pods.yaml --snapshot cluster.yaml --explain`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.UsageFault(fmt.Errorf("%s: unknown argument %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath()))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := f.request(cmd.InOrStdin())
			if err != nil {
				return err
			}
			report, err := f.run(cmd.Context(), r)
			if errors.Is(err, simulation.ErrRequest) || apierrors.IsBadRequest(err) {
				return cli.UsageFault(err) // which begins with the command's name
			}
			if err != nil {
				return fmt.Errorf("simulate: %w", err)
			}
			return f.output.Print(cmd.OutOrStdout(), report, func(w io.Writer) { f.text(w, report) })
		},
	}
	f.connect.Register(cmd)
	f.output.Register(cmd, "table")
	f.nodes.register(cmd)
	cmd.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "file with pods or workloads, YAML or JSON; - is standard input; may be repeated")
	cmd.Flags().StringArrayVar(&f.with, "with", nil, "another build, as NAME=FOLDER of a bundle or one of its plugins; may be repeated")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "another weight, as [PROFILE/]PRIORITY=WEIGHT; may be repeated")
	cmd.Flags().StringArrayVar(&f.disable, "disable", nil, "a predicate or priority to leave out, as [PROFILE/]NAME; may be repeated")
	cli.CompleteFlag(cmd, "set", f.connect.CompletePolicy(v1alpha1.PluginKindPriority, "="))
	cli.CompleteFlag(cmd, "disable", f.connect.CompletePolicy("", ""))
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "live", "live, a file of nodes and pods, or a backup of a store")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration that the policy is taken from, for files and backups; default: the running kernel's")
	cmd.Flags().BoolVar(&f.ask, "extenders", false, "ask the policy's extenders about a file or a backup, too")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the choice between tied nodes")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "explain each pod as pintle explain does")
	return cmd
}

// request reads what to simulate.
func (f *simulateFlags) request(in io.Reader) (*simulation.Request, error) {
	if err := f.output.Check(); err != nil {
		return nil, err
	}
	limit, err := f.nodes.limit()
	if err != nil {
		return nil, err
	}
	if len(f.files) == 0 {
		return nil, cli.UsageFault(errors.New("simulate: -f FILE names the pods"))
	}
	r := &simulation.Request{With: map[string]string{}, Set: map[string]int64{}, Disable: f.disable, Nodes: limit, Seed: f.seed}
	for _, name := range f.files {
		if err := readObjects(name, in, maxPodsFile, func(o runtime.Object) error {
			pods, err := simulation.Pods(o)
			r.Pods = append(r.Pods, pods...)
			return err
		}); err != nil {
			return nil, cli.UsageFault(err)
		}
	}
	if len(r.Pods) == 0 {
		return nil, cli.UsageFault(fmt.Errorf("simulate: %s: no pods in it", strings.Join(f.files, ", ")))
	}
	for _, text := range f.with {
		name, dir, ok := strings.Cut(text, "=")
		if !ok || name == "" || dir == "" {
			return nil, cli.UsageFault(fmt.Errorf("--with %q: want NAME=FOLDER", text))
		}
		if r.With[name], err = filepath.Abs(dir); err != nil {
			return nil, err
		}
	}
	for _, text := range f.set {
		name, value, _ := strings.Cut(text, "=")
		weight, err := strconv.ParseInt(value, 10, 64)
		if err != nil || name == "" {
			return nil, cli.UsageFault(fmt.Errorf("--set %q: want [PROFILE/]PRIORITY=WEIGHT", text))
		}
		r.Set[name] = weight
	}
	return r, nil
}

// run answers in the kernel where it can, and here otherwise.
func (f *simulateFlags) run(ctx context.Context, r *simulation.Request) (*simulation.Report, error) {
	if f.snapshot != "live" {
		cluster, err := f.read()
		if err != nil {
			return nil, err
		}
		cfg, extenders, err := f.policy(ctx)
		if err != nil {
			return nil, err
		}
		return f.beside(ctx, cfg, cluster, r, extenders, f.ask)
	}
	rest, err := f.connect.Config()
	if err != nil {
		return nil, err
	}
	c, err := inspect.Dial(rest)
	if err != nil {
		return nil, err
	}
	report := &simulation.Report{}
	if len(r.With) == 0 {
		return report, c.Post(ctx, r, report, "simulate")
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	cfg, extenders, err := simulation.RunningPolicy(ctx, c)
	if err != nil {
		return nil, err
	}
	cluster, err := simulation.Live(ctx, client)
	if err != nil {
		return nil, err
	}
	return f.beside(ctx, cfg, cluster, r, extenders, true)
}

// beside simulates in this program. Extenders are asked, or named as those that had no
// say.
func (f *simulateFlags) beside(ctx context.Context, cfg plugin.Config, cluster *scheduler.Cluster, r *simulation.Request, extenders []config.Extender, ask bool) (*simulation.Report, error) {
	var unasked []string
	for _, e := range extenders {
		if !ask && (e.FilterVerb != "" || e.PrioritizeVerb != "") {
			unasked = append(unasked, e.URLPrefix)
		}
	}
	if ask {
		made, done, err := kernel.Extenders(extenders)
		if err != nil {
			return nil, err
		}
		defer done()
		cluster.Extenders = made
	}
	report, err := simulation.Run(ctx, cfg, cluster, r, plugin.Deps{Log: cli.Warnings()})
	if report != nil {
		report.Snapshot, report.Unasked = f.snapshot, unasked
	}
	return report, err
}

// policy is that of a configuration, or of the running kernel, with its extenders.
func (f *simulateFlags) policy(ctx context.Context) (cfg plugin.Config, extenders []config.Extender, err error) {
	if f.config == "" {
		rest, err := f.connect.Config()
		if err != nil {
			return cfg, nil, fmt.Errorf("the policy: %w, or a configuration with --config", err)
		}
		c, err := inspect.Dial(rest)
		if err != nil {
			return cfg, nil, err
		}
		return simulation.RunningPolicy(ctx, c)
	}
	src := cli.SourceFlags{File: f.config, Data: f.connect.Data}
	full, err := src.Load()
	if err != nil {
		return cfg, nil, err
	}
	exe, err := cli.Binary()
	if err != nil {
		return cfg, nil, err
	}
	if cfg, err = kernel.SchedulingConfig(full, exe); err != nil {
		return cfg, nil, cli.UsageFault(err)
	}
	if len(cfg.Profiles) == 0 {
		return cfg, nil, cli.UsageFault(fmt.Errorf("%s: no scheduler profile", f.config))
	}
	return cfg, full.Scheduler.Extenders, nil
}

// read takes the picture from a file or a backup.
func (f *simulateFlags) read() (*scheduler.Cluster, error) {
	cluster := &scheduler.Cluster{}
	err := maintenance.BackupObjects(f.snapshot, maintenance.NewDecoder(), cluster.Add)
	if errors.Is(err, maintenance.ErrNoBackup) {
		err = readObjects(f.snapshot, nil, maxSnapshot, cluster.Add)
	}
	if err != nil {
		return nil, cli.UsageFault(fmt.Errorf("--snapshot: %w", err))
	}
	if len(cluster.Nodes) == 0 {
		return nil, cli.UsageFault(fmt.Errorf("--snapshot %s: no nodes in it", f.snapshot))
	}
	return cluster, nil
}

// readObjects hands on each object of a file of YAML or JSON, also those of lists.
func readObjects(name string, in io.Reader, limit int64, visit func(runtime.Object) error) error {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return fmt.Errorf("%s: larger than %s", name, cli.BytesText(limit))
	}
	if err := simulation.EachObject(data, visit); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (f *simulateFlags) text(w io.Writer, r *simulation.Report) {
	cli.Row(w, "SNAPSHOT", r.Snapshot, nodesText(r.Nodes))
	placed := fmt.Sprintf("%d of %d pods would be placed", r.Placed, len(r.Pods))
	if r.Compared {
		placed += fmt.Sprintf(", %d otherwise than by the present policy", r.Moved)
	}
	cli.Row(w, "RESULT", placed)
	for _, url := range r.Unasked {
		cli.Row(w, "NOT ASKED", fmt.Sprintf("extender %s, which may refuse nodes and score them; --extenders asks it", url))
	}
	cli.Row(w)
	header := []any{"NAMESPACE", "POD", "NODE"}
	if r.Compared {
		header = append(header, "PRESENT")
	}
	cli.Row(w, append(header, "WHY")...)
	node := func(name string) string { return cmp.Or(name, "<none>") }
	for i := range r.Pods {
		p := &r.Pods[i]
		cells := []any{p.Namespace, p.Explanation.Pod, node(p.Explanation.Node)}
		if r.Compared {
			present := "same"
			if p.Moves {
				present = node(p.Present.Node)
			}
			cells = append(cells, present)
		}
		why := p.Why
		if why == "" {
			why = p.Message
		}
		cli.Row(w, append(cells, why)...)
	}
	if f.explain {
		for i := range r.Pods {
			cli.Row(w)
			explanationText(w, r.Pods[i].Explanation)
		}
	}
}
