package nodepart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node/podnetwork"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/sdk/network"
)

// startNetwork has pods of other nodes reached, where a plugin for that is named, and returns how
// the runtime makes pods' interfaces.
func (p *Part) startNetwork(ctx context.Context, list *parts.Parts, cfg *config.Config) (network.Pods, error) {
	plugin, state := cfg.Node.Network, filepath.Join(p.Data, "network")
	former := formerNetworks{part: p, file: filepath.Join(state, "kept")}
	if plugin == "" {
		// Neither waits for the other: a removal takes long where a process does not run.
		list.Start("pod network's condition", func(ctx context.Context) error {
			podnetwork.Withdraw(ctx, p.deps.Client, p.Name, p.deps.Logger.With("part", "pod network"))
			<-ctx.Done()
			return nil
		}, nil)
		list.Start("former pod network", func(ctx context.Context) error {
			if err := former.remove(ctx, ""); err != nil {
				p.deps.Logger.Warn("routes and interfaces of a former pod network may stay", "error", err)
			}
			<-ctx.Done()
			return nil
		}, nil)
		return network.Pods{}, nil
	}
	if _, err := p.deps.Plugins.Network(plugin); err != nil {
		return network.Pods{}, fmt.Errorf("node.network: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return network.Pods{}, fmt.Errorf("pod network: %w", err)
	}
	// Before the start: routes of another network may be in the way of this one's.
	if err := former.remove(ctx, plugin); err != nil {
		return network.Pods{}, err
	}
	nodes := p.deps.Cluster
	if nodes == nil {
		nodes = p.deps.Client
	}
	keeper, err := podnetwork.New(podnetwork.Config{
		Plugin: plugin, Connect: func() (network.Network, error) { return p.deps.Plugins.Network(plugin) },
		Nodes: nodes, Client: p.deps.Client, Logger: p.deps.Logger.With("part", "pod network"),
		Options: network.Options{
			Name: plugin, Config: p.deps.Plugins.PluginConfig(plugin), NodeName: p.Name, NodeIPs: dualstack.Strings(p.IPs),
			PodCIDRs: dualstack.Split(cfg.Node.PodCIDR), ClusterCIDRs: clusterCIDRs(cfg), ServiceCIDRs: dualstack.Split(cfg.API.ServiceCIDR), StateDirectory: state,
		},
	})
	if err != nil {
		return network.Pods{}, err
	}
	pods, err := keeper.Start(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return pods, context.Cause(ctx)
		}
		return pods, fmt.Errorf("pod network: %w", err)
	}
	p.deps.Step("network", "%s", plugin)
	list.Start("pod network", keeper.Run, func(ctx context.Context) error {
		if p.keeps() {
			return keeper.Stop(ctx, false)
		}
		if err := keeper.Stop(ctx, true); err != nil {
			return err
		}
		return former.forget(plugin, state)
	})
	return pods, nil
}

// clusterCIDRs are the ranges of the pods of all nodes: those of this node alone where the
// configuration names none.
func clusterCIDRs(cfg *config.Config) []string {
	if len(cfg.Node.ClusterCIDRs) > 0 {
		return cfg.Node.ClusterCIDRs
	}
	return dualstack.Split(cfg.Node.PodCIDR)
}
