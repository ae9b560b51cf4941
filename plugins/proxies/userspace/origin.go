package userspace

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

// errNotAllowed is the answer to a client whom the source ranges leave out.
var errNotAllowed = errors.New("the client is not in loadBalancerSourceRanges")

// origin tells where clients are.
type origin struct {
	pods  []netip.Prefix
	nodes []string
	own   func() ([]net.Addr, error) // the addresses of this machine
}

func newOrigin(o proxy.Options) origin {
	out := origin{nodes: o.NodeIPs, own: net.InterfaceAddrs}
	cidrs := o.ClusterCIDRs
	if len(cidrs) == 0 {
		cidrs = o.PodCIDRs
	}
	for _, cidr := range cidrs {
		if p, err := netip.ParsePrefix(cidr); err == nil {
			out.pods = append(out.pods, p)
		}
	}
	return out
}

// inside reports whether a client is a pod or this machine itself.
func (o origin) inside(client string) bool {
	ip, err := netip.ParseAddr(client)
	if err != nil {
		return false
	}
	ip = ip.Unmap()
	return ip.IsLoopback() || slices.ContainsFunc(o.pods, func(p netip.Prefix) bool { return p.Contains(ip) }) || o.machine(ip)
}

// machine reports whether an address is this machine's own by now.
func (o origin) machine(ip netip.Addr) bool {
	addresses, err := o.own()
	if err != nil {
		return false // a stranger, until we know better
	}
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap() == ip
	})
}

// restrict lets the clients of the source ranges pass. A node within them may ask
// from the load balancer's address, which it can have for its own.
func (o origin) restrict(port *serviceport.Port, choose chooser) chooser {
	if !port.Restricted {
		return choose
	}
	return func(client string, fresh bool) (serviceport.Endpoint, error) {
		if !port.Allows(client) && !(slices.Contains(port.LoadBalancerIPs, client) && slices.ContainsFunc(o.nodes, port.Allows)) {
			return serviceport.Endpoint{}, fmt.Errorf("%s: %w", client, errNotAllowed)
		}
		return choose(client, fresh)
	}
}
