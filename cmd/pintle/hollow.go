package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/node/hollow/process"
	"pintle.dev/pintle/sdk/schedpolicy"
)

const hollowLong = `Run hollow nodes in a process of their own: simulated nodes with real agents, which
register, renew their Leases and bring pods to Running, while no container runs. They
are for tests of scale, of a Pintle kernel or of any other Kubernetes API server.

The nodes are named NAME-0, NAME-1 and so on. Only one process can use a name at a time.
Each node uses the identity system:node:NAME-0 (and so on) in the group system:nodes. The
user of the kubeconfig must be allowed to impersonate it, as an administrator is; the rights
that another user needs are in configs/docs/nodes.md.

The runtime is the plugin hollow, whose bundle lies in plugins beside this program.

Ctrl-C stops them in order. Their Node objects stay; to delete them:
  kubectl delete nodes -l kernel.pintle.dev/hollow

Exit status: 0 stopped by a signal; 1 it failed; 2 wrong flags or kubeconfig.`

type hollowFlags struct {
	kubeconfig, taints string
	labels             map[string]string
	capacity, extended map[string]string
	maxPods            int
	plugins            []string
	options            process.Options
}

func newHollowCommand() *cobra.Command {
	var f hollowFlags
	cmd := &cobra.Command{
		Use:   "hollow --nodes N --kubeconfig FILE",
		Short: "Run simulated nodes, for tests of scale; Ctrl-C stops them in order",
		Long:  hollowLong,
		Example: `  pintle hollow --nodes 100 --kubeconfig .data/admin.kubeconfig
  pintle hollow --nodes 20000 --name big --node-lease-duration 10m --node-status-report-frequency 15m --kubeconfig F`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := f.complete(); err != nil {
				return err
			}
			screen := &screen{out: cmd.OutOrStdout()}
			return f.run(ctx, stop, screen)
		},
	}
	o := &f.options
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; default: $KUBECONFIG")
	cmd.Flags().IntVar(&o.Nodes, "nodes", 1, "how many nodes")
	cmd.Flags().StringVar(&o.Name, "name", "hollow", "what the nodes' names begin with; -0, -1 and so on follow")
	cmd.Flags().StringToStringVar(&f.labels, "node-labels", nil, "labels of the nodes, KEY=VALUE,...")
	cmd.Flags().StringVar(&f.taints, "register-with-taints", "", "taints that the nodes register with, KEY=VALUE:EFFECT,...")
	cmd.Flags().IntVar(&f.maxPods, "max-pods", 110, "pods that a node takes; a node has 126 addresses")
	cmd.Flags().StringToStringVar(&f.capacity, "capacity", nil, "what a node has, RESOURCE=QUANTITY,... (default cpu=32,memory=256Gi,ephemeral-storage=1Ti)")
	cmd.Flags().StringToStringVar(&f.extended, "extended-resources", nil, "extended resources of a node, NAME=QUANTITY,...")
	cmd.Flags().Float64Var(&o.StartRate, "start-rate", 0, "how many nodes per second begin; 0: as many as can")
	cmd.Flags().DurationVar(&o.LeaseDuration, "node-lease-duration", 40*time.Second, "how long the Lease of a node is valid; it is renewed each quarter of that")
	cmd.Flags().DurationVar(&o.StatusReport, "node-status-report-frequency", 5*time.Minute, "how often the status of a node is computed and written")
	cmd.Flags().Float32Var(&o.QPS, "kube-api-qps", -1, "requests per second of each node at most; below zero: no limit")
	cmd.Flags().IntVar(&o.Burst, "kube-api-burst", 20, "requests of each node at once, with --kube-api-qps")
	cmd.Flags().StringVar(&o.ContentType, "kube-api-content-type", runtime.ContentTypeProtobuf, "content type of requests")
	cmd.Flags().StringArrayVar(&f.plugins, "plugins", nil, "folder with the bundle hollow; may be repeated (default: plugins beside this program)")
	cli.CompleteFlag(cmd, "plugins", cli.Folders)
	return cmd
}

// complete makes options of the flags.
func (f *hollowFlags) complete() (err error) {
	if f.kubeconfig == "" {
		f.kubeconfig = os.Getenv("KUBECONFIG")
	}
	if f.kubeconfig == "" {
		return cli.UsageFault(errors.New("hollow: --kubeconfig names the cluster; a kernel's is admin.kubeconfig in its data directory"))
	}
	o := &f.options
	if o.Cluster, err = cli.KubeconfigOf(f.kubeconfig, "pintle-hollow"); err != nil {
		return err
	}
	if o.Taints, err = process.ParseTaints(f.taints); err != nil {
		return cli.UsageFault(err)
	}
	if o.Capacity, err = process.Capacity(f.maxPods, f.capacity, f.extended); err != nil {
		return cli.UsageFault(err)
	}
	o.Labels, o.Runtime, o.PluginDirectories = f.labels, "hollow", f.plugins
	if len(f.plugins) == 0 {
		exe, err := cli.Binary()
		if err != nil {
			return err
		}
		o.PluginDirectories = []string{filepath.Join(filepath.Dir(exe), "plugins")}
	}
	return nil
}

func (f *hollowFlags) run(ctx context.Context, stop func(), screen *screen) error {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	log, stopping := newLogger(os.Stderr, "text", level)
	if err := schedpolicy.Batch(); err != nil {
		log.Warn("the nodes are scheduled as any program", "error", err)
	}
	release := context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C ends the process at once
		stopping()
		screen.line("stopping")
	})
	f.options.Logger = log
	f.options.Progress = func(format string, args ...any) { screen.line(format, args...) }
	err := process.Run(ctx, f.options)
	release()
	if errors.Is(err, process.ErrOptions) {
		return cli.UsageFault(err)
	}
	if err == nil {
		screen.line("stopped")
	}
	return err
}
