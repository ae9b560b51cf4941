package kernel

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/clusterdns"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/node/networkpolicy"
	"pintle.dev/pintle/kernel/node/oomscore"
	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/sdk/proxy"
	"pintle.dev/pintle/sdk/runtime"
)

// runtimeCheck is how often the runtime plugin is asked whether its endpoint
// still stands.
const runtimeCheck = 5 * time.Second

// nodeName is the configured name of the node, or the machine's.
func nodeName(cfg *config.Config) string {
	if cfg.Node.Name != "" {
		return cfg.Node.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(name)
}

// nodeAddress is the configured address of the node, or the one of the default
// route, or loopback on a machine without a network.
func nodeAddress(cfg *config.Config) net.IP {
	if ip := net.ParseIP(cfg.Node.Address); ip != nil {
		return ip
	}
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		return ip
	}
	return net.IPv4(127, 0, 0, 1)
}

// startNode starts the runtime, the node agent and the service proxy. Where the configuration names no range of pod IPs
// it waits for one first; it starts nothing when ctx ends meanwhile.
func (k *Kernel) startNode(ctx context.Context, cfg *config.Config) error {
	name, ip := nodeName(cfg), nodeAddress(cfg)
	client, _, err := k.client(nodeIdentity(name))
	if err != nil {
		return err
	}
	_, serving, err := k.api.PKI().Node(name, []net.IP{ip, net.IPv4(127, 0, 0, 1)}, name)
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	// A node may not list the others.
	admin, _, err := k.client(hostIdentity)
	if err != nil {
		return err
	}
	given := cfg.Node.PodCIDR == ""
	if given {
		cidr, err := k.awaitPodRange(ctx, client, cfg, name)
		if err != nil || cidr == "" {
			return err
		}
		with := *k.config() // live keys may have changed while it waited
		with.Node.PodCIDR = cidr
		cfg = &with
	}
	if err := checkPodRange(ctx, admin, cfg, name); err != nil {
		return err
	}
	endpoint, err := k.startRuntime(ctx, cfg, cfg.Node.Runtime, name, cfg.Node.PodCIDR)
	if err != nil {
		return err
	}
	settings, err := nodeSettings(cfg)
	if err != nil {
		return err
	}
	settings.NodeName, settings.NodeIP, settings.CRIEndpoint, settings.PodCIDRGiven = name, ip.String(), endpoint.Socket, given
	settings.RootDir, settings.LogDir, settings.Guarded = k.dirs.pods, k.dirs.logs, k.dirs.guarded()
	if _, err := exec.LookPath("iptables"); err != nil {
		settings.NoHostPorts = "the iptables tools, by which they are mapped, are not on this machine; install them, or use hostNetwork"
	}
	settings.LeastOOMScore = oomscore.Least(k.oomScore)
	settings.Listening = listener.Set{{Owner: "the API server", Address: cfg.API.BindAddress, Port: int32(k.api.Port())}}
	agent, err := node.New(settings, node.Deps{
		Client: client, Logger: k.log.With("part", "node"),
		ServingCert: &tls.Config{GetCertificate: serving.GetCertificate, MinVersion: tls.VersionTLS12},
		ClientCAs:   k.api.PKI().CAPool(), Revoked: k.api.PKI().Guard(),
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	if err := k.startPolicies(ctx, cfg, name, ip); err != nil {
		return err
	}
	if len(cfg.Node.Proxies) > 0 {
		if err := k.startProxy(cfg, name, ip, agent.Listening); err != nil {
			return err
		}
	}
	if cfg.Node.DNS != "" {
		if err := k.startDNS(cfg, admin, name, ip); err != nil {
			return err
		}
	}
	k.agent.Store(agent)
	tearDown := agent.TearDown
	if cfg.Node.OnStop == config.KeepPods {
		tearDown = nil // the next start takes the pods over
	}
	k.parts.startWithin("node "+name, agent.Run, tearDown, cfg.Node.ShutdownGracePeriod+stopTimeout)
	if err := k.await(ctx, agent.Ready()); err != nil {
		return err
	}
	// Another one may have registered at the same time.
	if err := checkPodRange(ctx, admin, cfg, name); err != nil {
		return err
	}
	// What the runtime lacks stands behind how it was started.
	_, lacks, _ := strings.Cut(endpoint.Message, ";")
	if lacks != "" {
		lacks = ";" + lacks
	}
	k.step("node", "%s (%s, %s)%s", name, ip, endpoint.Version, lacks)
	return nil
}

// startRuntime makes a runtime plugin's endpoint ready and keeps asking for it.
func (k *Kernel) startRuntime(ctx context.Context, cfg *config.Config, name, nodeName, podCIDR string) (runtime.Endpoint, error) {
	r, err := k.host.Runtime(name)
	if err != nil {
		return runtime.Endpoint{}, fmt.Errorf("runtime %s: %w", name, err)
	}
	options := runtime.Options{
		Name: name, Config: k.host.PluginConfig(name), NodeName: nodeName, PodCIDR: podCIDR,
		DataDirectory:  filepath.Join(k.dirs.data, "runtime", name),
		StateDirectory: filepath.Join(k.dirs.run, runtimeState+name),
	}
	for _, dir := range []string{options.DataDirectory, options.StateDirectory} {
		// Containers of any user pass through on the way to their mounts.
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return runtime.Endpoint{}, fmt.Errorf("runtime %s: %w", name, err)
		}
	}
	endpoint, err := r.Start(ctx, options)
	if err != nil {
		return endpoint, fmt.Errorf("runtime %s: %w", name, err)
	}
	log := k.log.With("part", "runtime", "runtime", name)
	log.Info("runtime is ready", "version", endpoint.Version, "how", endpoint.Message)
	k.parts.start("runtime "+name, func(ctx context.Context) error {
		tick := time.NewTicker(runtimeCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if _, err := r.Status(ctx); err != nil && ctx.Err() == nil {
					log.Warn("runtime is not ready", "error", err)
				}
			}
		}
	}, func(ctx context.Context) error {
		keep := cfg.Node.OnStop == config.KeepPods && nodeName != ""
		if err := r.Stop(ctx, keep); err != nil || keep {
			return err
		}
		return os.RemoveAll(options.StateDirectory)
	})
	return endpoint, nil
}

// startProxy feeds services to the first proxy that the machine can run.
func (k *Kernel) startProxy(cfg *config.Config, name string, ip net.IP, listening func() listener.Set) error {
	client, _, err := k.client(proxyIdentity)
	if err != nil {
		return err
	}
	state := filepath.Join(k.dirs.data, "proxy")
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("service proxy: %w", err)
	}
	feed := serviceproxy.Config{
		Client: client, Logger: k.log.With("part", "proxy"), Listening: listening,
		Options: proxy.Options{
			NodeName: name, NodeIPs: []string{ip.String()}, PodCIDRs: []string{cfg.Node.PodCIDR},
			ClusterCIDRs: []string{cfg.Node.PodCIDR}, ServiceCIDRs: []string{cfg.API.ServiceCIDR},
			StateDirectory: state, DataDirectory: state,
		},
	}
	for _, p := range cfg.Node.Proxies {
		feed.Candidates = append(feed.Candidates, serviceproxy.Candidate{
			Name: p, Config: k.host.PluginConfig(p),
			Connect: func(context.Context) (proxy.Proxy, error) { return k.host.Proxy(p) },
		})
	}
	feeder, err := serviceproxy.New(feed)
	if err != nil {
		return err
	}
	k.parts.start("service proxy", func(ctx context.Context) error {
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
		k.step("proxy", "%s", detail)
		return <-done
	}, func(ctx context.Context) error { return feeder.Stop(ctx, cfg.Node.OnStop != config.KeepPods) })
	return nil
}

// startPolicies has network policies enforced before the node's first pod starts, where a
// plugin for that is named. Where this machine cannot, that is said, and pods run as in a cluster that enforces none.
func (k *Kernel) startPolicies(ctx context.Context, cfg *config.Config, name string, ip net.IP) error {
	plugin, state := cfg.Node.Policies, filepath.Join(k.dirs.data, "networkpolicy")
	kept := filepath.Join(state, "kept") // the name of a plugin whose rules a stop left in force
	if plugin == "" {
		if by, err := os.ReadFile(kept); err == nil {
			k.step("policies", "rules of %s are still in force, of a stop with onStop: keep", by)
			k.log.Warn("no plugin enforces network policies, and rules of an earlier one keep new pods closed; name it in node.networkPolicy for one start and a stop with node.onStop: stop", "plugin", string(by))
		}
		return nil
	}
	if _, err := k.host.Proxy(plugin); err != nil {
		return fmt.Errorf("node.networkPolicy: %w", err)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("network policies: %w", err)
	}
	keeper, err := networkpolicy.New(networkpolicy.Config{
		Plugin: plugin, Connect: func() (proxy.Proxy, error) { return k.host.Proxy(plugin) }, Logger: k.log.With("part", "network policies"),
		Options: proxy.Options{
			Name: plugin, Config: k.host.PluginConfig(plugin), NodeName: name, NodeIPs: []string{ip.String()},
			PodCIDRs: []string{cfg.Node.PodCIDR}, ClusterCIDRs: []string{cfg.Node.PodCIDR}, ServiceCIDRs: []string{cfg.API.ServiceCIDR},
			StateDirectory: state, DataDirectory: state,
		},
	})
	if err != nil {
		return err
	}
	if err := keeper.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		k.step("policies", "not enforced yet: %v", err)
	} else {
		k.step("policies", "%s", plugin)
	}
	if err := os.WriteFile(kept, []byte(plugin), 0o600); err != nil {
		return fmt.Errorf("network policies: %w", err)
	}
	k.parts.start("network policies", keeper.Run, func(ctx context.Context) error {
		if cfg.Node.OnStop == config.KeepPods {
			return keeper.Stop(ctx, false)
		}
		if err := keeper.Stop(ctx, true); err != nil {
			return err
		}
		return os.RemoveAll(state)
	})
	return nil
}

// startDNS keeps the cluster's DNS of this node, by the client that may write what it
// is published as.
func (k *Kernel) startDNS(cfg *config.Config, client kubernetes.Interface, name string, ip net.IP) error {
	address, err := clusterdns.Address(cfg.API.ServiceCIDR)
	if err != nil {
		return err
	}
	plugin := cfg.Node.DNS
	if _, err := k.host.Proxy(plugin); err != nil {
		return fmt.Errorf("node.dns: %w", err)
	}
	dns, err := clusterdns.New(clusterdns.Config{
		Plugin: plugin, Connect: func() (proxy.Proxy, error) { return k.host.Proxy(plugin) },
		Client: client, ClusterIP: address, Logger: k.log.With("part", "dns"),
		Options: proxy.Options{
			Name: plugin, Config: k.host.PluginConfig(plugin), NodeName: name, NodeIPs: []string{ip.String()},
			PodCIDRs: []string{cfg.Node.PodCIDR}, ClusterCIDRs: []string{cfg.Node.PodCIDR}, ServiceCIDRs: []string{cfg.API.ServiceCIDR},
			ClusterDomain: cfg.Node.ClusterDomain,
		},
	})
	if err != nil {
		return err
	}
	k.parts.start("cluster DNS", func(ctx context.Context) error {
		done := make(chan error, 1)
		go func() { done <- dns.Run(ctx) }()
		select {
		case err := <-done:
			return err
		case <-dns.Answering():
			k.step("dns", "%s at %s", plugin, address)
		}
		return <-done
	}, dns.Stop)
	return nil
}
