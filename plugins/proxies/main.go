// Proxies is the bundle of what programs the network of a node. It has the service proxies nftables,
// iptables, ipvs and userspace, the networks that connect pods of several machines, the enforcer of
// network policies, and the announcer of load balancers' addresses.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"

	"pintle.dev/pintle/plugins/layer2"
	"pintle.dev/pintle/plugins/networkpolicy"
	"pintle.dev/pintle/plugins/networks/bridge"
	"pintle.dev/pintle/plugins/networks/cni"
	"pintle.dev/pintle/plugins/proxies/iptables"
	"pintle.dev/pintle/plugins/proxies/ipvs"
	"pintle.dev/pintle/plugins/proxies/measures"
	"pintle.dev/pintle/plugins/proxies/nftables"
	"pintle.dev/pintle/plugins/proxies/userspace"
	"pintle.dev/pintle/sdk/metrics"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/proxy"
	"pintle.dev/pintle/sdk/transport"
)

func main() {
	// What is kept for many services weighs more than what a change makes: collecting often
	// costs little, and halves what is free between two collections.
	debug.SetGCPercent(50)
	klog.SetSlogLogger(slog.New(transport.Logger().Handler())) // of the watches of policies
	// Each removes what the others left.
	measures.Register()
	proxies := proxy.ServiceOf(map[string]proxy.Proxy{
		"nftables":  nftables.New(iptables.Remove, ipvs.Remove),
		"iptables":  iptables.New(nftables.Remove, ipvs.Remove),
		"ipvs":      ipvs.New(nftables.Remove, iptables.Remove),
		"userspace": userspace.New(nftables.Remove, iptables.Remove, ipvs.Remove),

		networkpolicy.Name: networkpolicy.New(),
		layer2.Name:        layer2.New(),
	})
	networks := network.ServiceOf(map[string]network.Network{
		bridge.Name: bridge.New(),
		cni.Name:    cni.New(),
	})
	if err := transport.Serve(proxies, networks, metrics.Service()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
