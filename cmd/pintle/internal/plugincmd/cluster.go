package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Exit codes of the commands that change plugins of a running kernel, beside main's.
const (
	exitRefused  = 3 // the plugin host did not take it
	exitTimedOut = 4 // or there is no such plugin
)

const pluginExits = `Which cluster: --kubeconfig FILE, or the kernel of --data DIR, or else
$KUBECONFIG, $PINTLE_DATADIR, .data.

Exit status: 0 done; 1 it failed, the message says what to do; 2 wrong flags or
arguments; 3 the plugin host refused it, the message says why, and everything is
as it was; 4 there is no such plugin, or it was not in force in time (--timeout).`

// clusterCode gives errors of a running kernel's plugins their exit codes.
func clusterCode(what string, err error) error {
	var refused *operate.RefusedError
	switch {
	case err == nil || errors.As(err, new(cli.ExitError)) || errors.As(err, new(cli.UsageError)):
		return err
	case errors.As(err, &refused):
		return cli.ExitWith(fmt.Errorf("%s: %w", what, err), exitRefused)
	case errors.Is(err, operate.ErrTimedOut):
		return cli.ExitWith(fmt.Errorf("%s: %w", what, err), exitTimedOut)
	case apierrors.IsNotFound(err):
		return cli.ExitWith(fmt.Errorf("%s: %w; pintle plugin list shows what there is", what, err), cli.ExitGone)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// onePlugin wants one argument.
func onePlugin(cmd *cobra.Command, args []string) error {
	if err := cobra.ExactArgs(1)(cmd, args); err != nil {
		return cli.UsageFault(fmt.Errorf("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath()))
	}
	return nil
}

// changeFlags are those of commands that change a plugin and wait for it.
type changeFlags struct {
	cluster cli.ConnectFlags
	output  cli.OutputFlag
	wait    bool
	timeout time.Duration
}

func (f *changeFlags) register(cmd *cobra.Command) {
	f.cluster.Register(cmd)
	f.output.Register(cmd, "table")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until it is in force")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait at most")
	cmd.Args, cmd.ValidArgsFunction = onePlugin, f.cluster.CompleteBoth
}

// run changes a plugin, or any of a bundle, and says what came of it.
func (f *changeFlags) run(cmd *cobra.Command, name string, change func(*v1alpha1.Plugin) error, done func(*v1alpha1.Plugin) string) error {
	if err := f.output.Check(); err != nil {
		return err
	}
	client, err := f.cluster.Plugins()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	work := func() (*v1alpha1.Plugin, error) {
		o, err := client.Find(ctx, name)
		if err != nil {
			return nil, err
		}
		if o, err = client.Change(ctx, o.Name, change); err != nil || !f.wait {
			return o, err
		}
		bar, begin := cli.NewProgress(os.Stderr), time.Now()
		defer bar.Done()
		return client.Await(ctx, o, func(waiting string) {
			bar.Tell("waiting for "+waiting, int64(time.Since(begin).Seconds()), int64(f.timeout.Seconds()), func(n int64) string { return fmt.Sprintf("%d s", n) })
		})
	}
	o, err := work()
	if err != nil {
		return clusterCode("plugin "+cmd.Name(), err)
	}
	if f.wait {
		notReady(o)
	}
	return f.output.Print(cmd.OutOrStdout(), o, func(w io.Writer) {
		text := "written"
		if f.wait {
			text = done(o)
		}
		if f.output.Wide() {
			text = fmt.Sprintf("%s\t%s\t%s %s\t%s", text, o.Status.State, o.Spec.Bundle, o.Status.Version, orDash(o.Status.Digest))
		}
		fmt.Fprintf(w, "%s %s\n", o.Name, text)
	})
}
