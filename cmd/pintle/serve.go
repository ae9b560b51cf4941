package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/sdk/schedpolicy"
)

func newServeCommand() *cobra.Command {
	var src cli.SourceFlags
	cmd := &cobra.Command{
		Use:   "serve --config FILE",
		Short: "Run a kernel in the foreground; Ctrl-C stops it in order",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if src.File == "" {
				return cli.UsageFault(errors.New("serve: --config is missing; configs/standalone.yaml is a whole cluster on this machine"))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return serve(ctx, stop, &src, cmd.OutOrStdout())
		},
	}
	src.Register(cmd)
	return cmd
}

func serve(ctx context.Context, stop func(), src *cli.SourceFlags, out io.Writer) error {
	cfg, err := src.Load()
	if err != nil {
		return err
	}
	if disarm := catchFaults(cfg); disarm != nil {
		defer disarm()
	}
	level := new(slog.LevelVar)
	level.Set(kernel.Level(cfg.Logging.Level))
	log, stopping := newLogger(os.Stderr, cfg.Logging.Format, level)
	if err := schedpolicy.Batch(); err != nil {
		log.Warn("the kernel is scheduled as any program", "error", err)
	}
	exe, err := cli.Binary()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	screen := &screen{out: out}
	screen.line("pintle: data in %s", cfg.DataDir)
	begin := time.Now()
	k, err := kernel.New(cfg, kernel.Options{Logger: log, Level: level, Progress: screen.step, Stopping: stopping, Executable: exe})
	if errors.As(err, new(config.Faults)) {
		return cli.UsageFault(err)
	}
	if err != nil {
		return err
	}
	return runDaemon(ctx, stop, k, src.Source(), cfg, log, screen, func() {
		screen.ready(k, src.File, cfg.Node.Enabled, time.Since(begin))
	})
}

// screen shows the start to a person; scripts rely on the lines "kubeconfig:"
// and "ready".
type screen struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *screen) step(step kernel.Step) {
	s.line("  %-9s %s (%d ms)", step.Name, step.Detail, step.Took.Milliseconds())
}

func (s *screen) ready(k *kernel.Kernel, file string, node bool, took time.Duration) {
	exe := os.Args[0]
	if !strings.Contains(exe, "/") {
		exe = "pintle"
	}
	s.line("kubeconfig: %s", k.AdminKubeconfig())
	s.line("ready in %d ms", took.Milliseconds())
	s.line("next: export KUBECONFIG=%s", k.AdminKubeconfig())
	if example := filepath.Join(filepath.Dir(file), "examples", "guestbook.yaml"); node && cli.Exists(example) {
		s.line("      %s kubectl apply -f %s", exe, example)
		s.line("      %s kubectl get pods -A -w", exe)
	} else {
		s.line("      %s kubectl api-resources", exe)
	}
}
