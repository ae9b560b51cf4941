package plugincmd

import (
	"context"
	"errors"
	"fmt"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin/operate"
)

// withKernel has the kernel that runs on a data directory try a bundle before the
// lock names it, and load it then, so that a refusal is heard at once and leaves the
// lock as it was.
func (f *enableFlags) withKernel(o *catalog.InstallOptions, data string) error {
	if !running(data) {
		return nil
	}
	cfg, err := (&cli.ConnectFlags{Data: data}).Config()
	if err != nil {
		return err
	}
	client, err := inspect.Dial(cfg)
	if err != nil {
		return err
	}
	ask := func(what func(context.Context, *inspect.Client, operate.Installation) error) func(context.Context, *catalog.Installed) error {
		return func(ctx context.Context, got *catalog.Installed) error {
			ctx, cancel := context.WithTimeout(ctx, f.timeout)
			defer cancel()
			err := what(ctx, client, operate.Installation{Bundle: got.Name, Digest: got.Digest})
			var refused *operate.RefusedError
			if errors.As(err, &refused) {
				err = cli.ExitWith(fmt.Errorf("plugin install: %s %s is not installed: the kernel refused it: %s", got.Name, got.Version, refused.Message), exitRefused)
			} else if err != nil {
				err = clusterCode(fmt.Sprintf("plugin install: %s %s is not installed: the kernel of %s did not answer", got.Name, got.Version, data), err)
			}
			return err
		}
	}
	o.Try, o.Loaded = ask(operate.Try), ask(operate.Load)
	return nil
}
