package nodepart

import (
	"context"
	"fmt"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node/follower"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/sdk/proxy"
)

// startAnnouncer has addresses of load balancers announced on this machine's network, where
// a plugin for that is named. The node does not wait for it.
func (p *Part) startAnnouncer(list *parts.Parts, cfg *config.Config) error {
	plugin := cfg.Node.Announcer
	if plugin == "" {
		return nil
	}
	if _, err := p.deps.Plugins.Proxy(plugin); err != nil {
		return fmt.Errorf("node.announcer: %w", err)
	}
	keeper, err := follower.New(follower.Config{
		Purpose: "addresses of load balancers",
		Lost:    "addresses of load balancers are not announced as they are now; it is tried again",
		Back:    "addresses of load balancers are announced again",
		Plugin:  plugin, Connect: func() (proxy.Proxy, error) { return p.deps.Plugins.Proxy(plugin) }, Logger: p.deps.Logger.With("part", "announcer"),
		Options: proxy.Options{Name: plugin, Config: p.deps.Plugins.PluginConfig(plugin), NodeName: p.Name, NodeIPs: dualstack.Strings(p.IPs)},
	})
	if err != nil {
		return err
	}
	list.Start("announcer", keeper.Run, func(ctx context.Context) error { return keeper.Stop(ctx, true) })
	return nil
}
