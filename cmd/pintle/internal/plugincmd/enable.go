package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// enableFlags make install switch on what it installed.
type enableFlags struct {
	on       bool
	profiles []string
	weight   int64
	timeout  time.Duration
}

func (f *enableFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "enable", false, "switch its plugins on in the running kernel, and wait until they are in force")
	cmd.Flags().StringArrayVar(&f.profiles, "profile", nil, "with --enable: scheduler profile (its schedulerName) to use them in; may be repeated; default: the first")
	cmd.Flags().Int64Var(&f.weight, "weight", 0, "with --enable: factor of the scores of its priorities")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for a running kernel at most")
	cmd.MarkFlagsMutuallyExclusive("enable", "beside")
	cli.CompleteFlag(cmd, "profile", func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		data := ""
		if f := cmd.Flags().Lookup("data"); f != nil {
			data = f.Value.String()
		}
		return (&cli.ConnectFlags{Data: data}).CompleteProfiles(cmd, args, typed)
	})
}

// check refuses what cannot be done before anything is.
func (f *enableFlags) check(cmd *cobra.Command, data string, source bool) error {
	switch {
	case !f.on && (len(f.profiles) > 0 || cmd.Flags().Changed("weight")):
		return cli.UsageFault(errors.New("plugin install: --profile and --weight say how --enable is meant: add it"))
	case cmd.Flags().Changed("weight") && f.weight < 1:
		return cli.UsageFault(errors.New("plugin install: --weight: want 1 or more"))
	case f.on && !source:
		return cli.UsageFault(errors.New("plugin install: --enable needs a SOURCE; without one, plugins are as they were"))
	case f.on && !running(data):
		return cli.UsageFault(fmt.Errorf("plugin install: --enable needs a running kernel, and none runs on %s: start it, or install without and enable by pintle plugin enable", data))
	}
	return nil
}

// enable waits until the kernel has loaded a bundle, and switches its plugins on.
func (f *enableFlags) enable(ctx context.Context, got *catalog.Installed, data string) error {
	client, err := (&cli.ConnectFlags{Data: data}).Plugins()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	bar := cli.NewProgress(os.Stderr)
	defer bar.Done()
	for _, name := range got.Plugins {
		if err := f.enableOne(ctx, client, got, name, bar); err != nil {
			return clusterCode("plugin install: "+got.Name+" is installed, and not enabled", err)
		}
	}
	return nil
}

func (f *enableFlags) enableOne(ctx context.Context, client *operate.Client, got *catalog.Installed, name string, bar *cli.Progress) error {
	bar.Step("enable "+name, 0, 0)
	if err := client.AwaitLoaded(ctx, name, got.Name, got.Version); err != nil {
		return err
	}
	o, err := client.Change(ctx, name, func(o *v1alpha1.Plugin) error {
		var profiles []string
		var weight int64
		if scheduling := sdk.SchedulingKind(string(o.Spec.Kind)); scheduling {
			profiles = f.profiles
		}
		if o.Spec.Kind == v1alpha1.PluginKindPriority {
			weight = f.weight
		}
		if o.Spec.Version != "" && o.Spec.Version != got.Version {
			o.Spec.Version, o.Spec.Digest = got.Version, got.Digest // an earlier upgrade named another
		}
		return operate.Enable(profiles, weight)(o)
	})
	if err != nil {
		return err
	}
	if o, err = client.Await(ctx, o, nil); err == nil {
		bar.Done()
		notReady(o)
	}
	return err
}

// notReady tells of a plugin that is in force and does not answer yet.
func notReady(o *v1alpha1.Plugin) {
	if ptr.Deref(o.Spec.Enabled, true) && !o.Status.State.Serves() {
		fmt.Fprintf(os.Stderr, "%s is in force, and %s: %s\n", o.Name, o.Status.State, o.Status.Message)
	}
}
