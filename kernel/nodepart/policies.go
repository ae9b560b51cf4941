package nodepart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node/follower"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/sdk/proxy"
)

// startPolicies has network policies enforced before the node's first pod starts, where a
// plugin for that is named. Where this machine cannot, that is said, and pods run as in a cluster that enforces none.
func (p *Part) startPolicies(ctx context.Context, list *parts.Parts, cfg *config.Config) error {
	plugin, state := cfg.Node.Policies, filepath.Join(p.Data, "networkpolicy")
	kept := filepath.Join(state, "kept") // the name of a plugin whose rules a stop left in force
	if plugin == "" {
		if by, err := os.ReadFile(kept); err == nil {
			p.deps.Step("policies", "rules of %s are still in force, of a stop with onStop: keep", by)
			p.deps.Logger.Warn("no plugin enforces network policies, and rules of an earlier one keep new pods closed; name it in node.networkPolicy for one start and a stop with node.onStop: stop", "plugin", string(by))
		}
		return nil
	}
	if _, err := p.deps.Plugins.Proxy(plugin); err != nil {
		return fmt.Errorf("node.networkPolicy: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("network policies: %w", err)
	}
	keeper, err := follower.New(follower.Config{
		Purpose: "network policies",
		Lost:    "network policies are not enforced as they are now; what was enforced before stays in force, and it is tried again",
		Back:    "network policies are enforced again",
		Plugin:  plugin, Connect: func() (proxy.Proxy, error) { return p.deps.Plugins.Proxy(plugin) }, Logger: p.deps.Logger.With("part", "network policies"),
		Options: proxy.Options{
			Name: plugin, Config: p.deps.Plugins.PluginConfig(plugin), NodeName: p.Name, NodeIPs: dualstack.Strings(p.IPs),
			PodCIDRs: dualstack.Split(cfg.Node.PodCIDR), ClusterCIDRs: clusterCIDRs(cfg), ServiceCIDRs: dualstack.Split(cfg.API.ServiceCIDR),
			StateDirectory: state, DataDirectory: state,
		},
	})
	if err != nil {
		return err
	}
	// Written first: rules are never in force without the name of the plugin that takes them away.
	if err := os.WriteFile(kept, []byte(plugin), 0o600); err != nil {
		return fmt.Errorf("network policies: %w", err)
	}
	if err := keeper.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.deps.Step("policies", "not enforced yet: %v", err)
	} else {
		p.deps.Step("policies", "%s", plugin)
	}
	list.Start("network policies", keeper.Run, func(ctx context.Context) error {
		if p.keeps() {
			return keeper.Stop(ctx, false)
		}
		if err := keeper.Stop(ctx, true); err != nil {
			return err
		}
		return os.RemoveAll(state)
	})
	return nil
}
