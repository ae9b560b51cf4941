package kernel

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/nodepart"
	"pintle.dev/pintle/kernel/parts"
)

// startNode starts this machine's node and waits until it takes pods. Where the configuration names no range of pod IPs,
// that is when the Node object was given one.
func (k *Kernel) startNode(ctx context.Context, cfg *config.Config) error {
	name, ips := nodepart.Name(cfg), nodepart.Addresses(cfg)
	client, _, err := k.client(nodeIdentity(name))
	if err != nil {
		return err
	}
	// A node may not list the others.
	admin, _, err := k.client(hostIdentity)
	if err != nil {
		return err
	}
	services, _, err := k.client(proxyIdentity)
	if err != nil {
		return err
	}
	_, serving, err := k.api.PKI().Node(name, append(slices.Clone(ips), net.IPv4(127, 0, 0, 1)), name)
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	part, err := nodepart.New(nodepart.Config{
		Name: name, IPs: ips, Settings: k.config, KubeletVersion: api.GitVersion, OOMScore: k.oomScore,
		Data: k.dirs.data, Pods: k.dirs.pods, Logs: k.dirs.logs, Sockets: k.dirs.run, Guarded: k.dirs.guarded(),
		Listening: listener.Set{{Owner: "the API server", Address: cfg.API.BindAddress, Port: int32(k.api.Port())}},
	}, nodepart.Deps{
		Plugins: k.host, Client: client, Cluster: admin, Proxy: services, Step: k.step, Logger: k.log,
		Serving:   &tls.Config{GetCertificate: serving.GetCertificate, MinVersion: tls.VersionTLS12},
		ClientCAs: k.api.PKI().CAPool(), Revoked: k.api.PKI().Guard(),
	})
	if err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	k.node.Store(part)
	k.parts.StartWithin("node "+name, part.Run, part.Stop, nodeStop(cfg))
	return k.await(ctx, part.Ready())
}

// nodeStop is how long the pieces of a node may take to stop: the agent with its pods, and
// DNS, proxy and runtime.
func nodeStop(cfg *config.Config) time.Duration {
	return cfg.Node.ShutdownGracePeriod + 5*parts.StopTimeout
}

// reconfigureNode hands the node what changed of its live settings.
func (k *Kernel) reconfigureNode(cfg *config.Config, keys []string) {
	part := k.node.Load()
	if part == nil {
		return // there is no node, or it takes them when it starts
	}
	if err := part.Reconfigure(cfg); err != nil {
		k.log.Error("configuration of the node not applied; the former one stays in force", "error", err)
		return
	}
	k.log.Info("configuration applied", "keys", keys)
}
