package simulation

import (
	"context"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
)

// RunningPolicy is the policy of the kernel that c asks, for a host in this program, with its
// extenders.
func RunningPolicy(ctx context.Context, c *inspect.Client) (cfg plugin.Config, extenders []config.Extender, err error) {
	if err = c.Get(ctx, nil, &cfg, "policy"); err == nil {
		err = c.Get(ctx, nil, &extenders, "extenders")
	}
	cfg.Alone()
	return cfg, extenders, err
}
