package nodepart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node/clusterdns"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/sdk/proxy"
)

// startProxy feeds services to the first proxy that the machine can run.
func (p *Part) startProxy(list *parts.Parts, cfg *config.Config, listening func() listener.Set, own *serviceproxy.Own) error {
	state := filepath.Join(p.Data, "proxy")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("service proxy: %w", err)
	}
	feed := serviceproxy.Config{
		Client: p.deps.Proxy, Logger: p.deps.Logger.With("part", "proxy"), Listening: listening, Own: own,
		Options: proxy.Options{
			NodeName: p.Name, NodeIPs: dualstack.Strings(p.IPs), PodCIDRs: dualstack.Split(cfg.Node.PodCIDR),
			ClusterCIDRs: clusterCIDRs(cfg), ServiceCIDRs: dualstack.Split(cfg.API.ServiceCIDR),
			StateDirectory: state, DataDirectory: state,
		},
	}
	for _, name := range cfg.Node.Proxies {
		feed.Candidates = append(feed.Candidates, serviceproxy.Candidate{
			Name: name, Config: p.deps.Plugins.PluginConfig(name),
			Connect: func(context.Context) (proxy.Proxy, error) { return p.deps.Plugins.Proxy(name) },
		})
	}
	feeder, err := serviceproxy.New(feed)
	if err != nil {
		return err
	}
	list.Start("service proxy", func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- feeder.Run(ctx) }()
		select {
		case err := <-done:
			return err
		case <-feeder.Chosen():
		}
		chosen, reasons := feeder.Choice()
		detail := chosen
		for _, r := range reasons {
			detail += "; not " + r
		}
		p.deps.Step("proxy", "%s", detail)
		return <-done
	}, func(ctx context.Context) error { return feeder.Stop(ctx, !p.keeps()) })
	return nil
}

// startDNS keeps the cluster's DNS of this node, by the client that may write what it
// is published as. Without such a client only the service proxy of this machine gets it (own).
func (p *Part) startDNS(list *parts.Parts, cfg *config.Config, own *serviceproxy.Own) error {
	address, err := clusterdns.Address(cfg.API.ServiceCIDR)
	if err != nil {
		return err
	}
	plugin := cfg.Node.DNS
	if _, err := p.deps.Plugins.Proxy(plugin); err != nil {
		return fmt.Errorf("node.dns: %w", err)
	}
	dns, err := clusterdns.New(clusterdns.Config{
		Plugin: plugin, Connect: func() (proxy.Proxy, error) { return p.deps.Plugins.Proxy(plugin) },
		Client: p.deps.Cluster, Own: own, ClusterIP: address, Logger: p.deps.Logger.With("part", "dns"),
		Options: proxy.Options{
			Name: plugin, Config: p.deps.Plugins.PluginConfig(plugin), NodeName: p.Name, NodeIPs: dualstack.Strings(p.IPs),
			PodCIDRs: dualstack.Split(cfg.Node.PodCIDR), ClusterCIDRs: clusterCIDRs(cfg), ServiceCIDRs: dualstack.Split(cfg.API.ServiceCIDR),
			ClusterDomain: cfg.Node.ClusterDomain,
		},
	})
	if err != nil {
		return err
	}
	list.Start("cluster DNS", func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- dns.Run(ctx) }()
		select {
		case err := <-done:
			return err
		case <-dns.Answering():
			p.deps.Step("dns", "%s at %s", plugin, address)
		}
		return <-done
	}, dns.Stop)
	return nil
}
