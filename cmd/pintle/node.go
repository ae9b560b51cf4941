package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	certutil "k8s.io/client-go/util/cert"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/join"
	"pintle.dev/pintle/kernel/secretfile"
	"pintle.dev/pintle/sdk/schedpolicy"
)

const nodeLong = `Run a node of a cluster whose kernel runs on another machine: the node agent with its
runtime and service proxy. Ctrl-C stops it in order; node.onStop says what becomes of pods.

The first time, --join-file names a file with the cluster: a bootstrap token, the API
server's address and the hash of the key of the cluster's authority, by which no other
server is believed. pintle token create --print-join-command prints it where the kernel
runs. --join has the same as an argument, which other users of the machine see (ps) while
the node runs. The machine gets a client certificate as system:node:NAME, keeps it in the
data directory and renews it. From then on neither is needed. Where one is given it has to
name the same cluster; a new address of it is kept. Delete the token when all machines have
joined: pintle token delete.

With --kubeconfig the credentials of that file are used as they are. Its user has to be
system:node:NAME of the group system:nodes. The node's own port takes client certificates of
the authorities in --client-ca-file; without it, of those that the API server names in the
ConfigMap kube-system/extension-apiserver-authentication.

The node has the range of pod IPs that its Node object is given, such as by the controller
nodeipam, and waits for it. When the API server is away pods go on and are restarted.

To leave for good: stop it, pintle kubectl delete node NAME, and remove the data directory.

Exit status: 0 stopped by a signal; 1 it failed; 2 wrong flags or configuration.`

type nodeFlags struct {
	src                        cli.SourceFlags
	join, joinFile, kubeconfig string
	clientCA                   string
	timeout                    time.Duration
}

func newNodeCommand() *cobra.Command {
	var f nodeFlags
	cmd := &cobra.Command{
		Use:   "node --config FILE [--join-file FILE | --join TOKEN@HOST/HASH | --kubeconfig FILE]",
		Short: "Run a node whose kernel runs on another machine; Ctrl-C stops it in order",
		Long:  nodeLong,
		Example: `  pintle node --config configs/node.yaml --join-file /root/join
  pintle node --config configs/node.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.src.File == "" {
				return cli.UsageFault(errors.New("node: --config is missing; configs/node.yaml is a node"))
			}
			if cmd.Flags().Changed("join-file") { // here, where Ctrl-C ends a read from a terminal
				var err error
				if f.join, err = readJoin(f.joinFile, cmd.InOrStdin()); err != nil {
					return cli.UsageFault(fmt.Errorf("node: %w", err))
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, stop, &screen{out: cmd.OutOrStdout()})
		},
	}
	f.src.Register(cmd)
	cmd.Flags().StringVar(&f.join, "join", "", "cluster to join, which other users of the machine see (ps): "+join.Form)
	cmd.Flags().StringVar(&f.joinFile, "join-file", "", "file with what --join takes; - is standard input")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig whose user is the node, in place of joining")
	cmd.Flags().StringVar(&f.clientCA, "client-ca-file", "", "with --kubeconfig: PEM file of the authorities whose client certificates the node's port takes")
	cmd.Flags().DurationVar(&f.timeout, "join-timeout", 5*time.Minute, "how long joining may take")
	cmd.MarkFlagsMutuallyExclusive("join", "join-file", "kubeconfig")
	return cmd
}

// maxJoin bounds the file of --join-file, in bytes.
const maxJoin = 4096

// readJoin is the argument of a file, or of standard input. No error contains it.
func readJoin(file string, stdin io.Reader) (string, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("--join-file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxJoin+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("--join-file %s: %w", file, err)
	case len(data) > maxJoin:
		return "", fmt.Errorf("--join-file %s: has more than %d bytes; want %s", file, maxJoin, join.Form)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("--join-file %s: is empty; want %s", file, join.Form)
	}
	return text, nil
}

// options reads what the flags name.
func (f *nodeFlags) options() (o kernel.MachineOptions, err error) {
	o.JoinTimeout = f.timeout
	if f.timeout <= 0 {
		return o, cli.UsageFault(fmt.Errorf("node: --join-timeout %s: want more than 0", f.timeout))
	}
	if f.join != "" {
		a, err := join.ParseArgument(f.join)
		if err != nil {
			return o, cli.UsageFault(fmt.Errorf("node: %w", err))
		}
		o.Join = &a
	}
	if f.kubeconfig != "" {
		if o.Kubeconfig, err = cli.KubeconfigOf(f.kubeconfig, "pintle-node"); err != nil {
			return o, err
		}
	}
	if f.clientCA != "" {
		if f.kubeconfig == "" {
			return o, cli.UsageFault(errors.New("node: --client-ca-file is for --kubeconfig; a machine that joins has the cluster's authority"))
		}
		if o.ClientCA, err = authoritiesOf(f.clientCA); err != nil {
			return o, cli.UsageFault(fmt.Errorf("node: --client-ca-file: %w", err))
		}
	}
	return o, nil
}

// authoritiesOf reads a PEM file of at most secretfile.MaxSize bytes.
func authoritiesOf(file string) ([]byte, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, secretfile.MaxSize+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > secretfile.MaxSize:
		return nil, fmt.Errorf("%s: has more than %d bytes", file, secretfile.MaxSize)
	}
	if _, err := certutil.ParseCertsPEM(data); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return data, nil
}

func (f *nodeFlags) run(ctx context.Context, stop func(), screen *screen) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	cfg, err := f.src.Load()
	if err != nil {
		return err
	}
	if disarm := catchFaults(cfg); disarm != nil {
		defer disarm()
	}
	o.Level = new(slog.LevelVar)
	o.Level.Set(kernel.Level(cfg.Logging.Level))
	o.Logger, o.Stopping = newLogger(os.Stderr, cfg.Logging.Format, o.Level)
	if err := schedpolicy.Batch(); err != nil {
		o.Logger.Warn("the node is scheduled as any program", "error", err)
	}
	if o.Executable, err = cli.Binary(); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	screen.line("pintle: data in %s", cfg.DataDir)
	begin := time.Now()
	o.Progress = screen.step
	m, err := kernel.NewMachine(cfg, o)
	if errors.As(err, new(config.Faults)) {
		return cli.UsageFault(err)
	}
	if err != nil {
		return err
	}
	return runDaemon(ctx, stop, m, f.src.Source(), cfg, o.Logger, screen, func() {
		screen.line("ready in %d ms", time.Since(begin).Milliseconds())
	})
}
