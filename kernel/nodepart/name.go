package nodepart

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
)

// Name is the configured name of the node, or the machine's.
func Name(cfg *config.Config) string {
	if cfg.Node.Name != "" {
		return cfg.Node.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return strings.ToLower(name)
}

// Addresses are the configured ones of the node, or of each IP family of the cluster the one of the default route. The
// first is of the cluster's first family where the machine has one: loopback on a machine without a network.
func Addresses(cfg *config.Config) (out []net.IP) {
	if given, err := dualstack.Addresses(cfg.Node.Address); err == nil {
		for _, a := range given {
			out = append(out, a.AsSlice())
		}
		return out
	}
	for _, ipv4 := range families(cfg) {
		if ip := ofFamily(ipv4); ip != nil {
			out = append(out, ip)
			continue
		}
		if len(out) > 0 {
			continue // pods of that family are reached by the other one, or on this machine alone
		}
		ip, err := utilnet.ChooseHostInterface()
		switch {
		case err == nil:
		case ipv4:
			ip = net.IPv4(127, 0, 0, 1)
		default:
			ip = net.IPv6loopback
		}
		return append(out, ip)
	}
	return out
}

// families are those of services and pods, the first one first; true is IPv4.
func families(cfg *config.Config) (out []bool) {
	for _, text := range slices.Concat(dualstack.Split(cfg.API.ServiceCIDR), dualstack.Split(cfg.Node.PodCIDR), cfg.Node.ClusterCIDRs) {
		if p, err := netip.ParsePrefix(text); err == nil && !slices.Contains(out, p.Addr().Is4()) {
			out = append(out, p.Addr().Is4())
		}
	}
	if len(out) == 0 {
		return []bool{true}
	}
	return out
}

// ofFamily is the machine's address of a family: that of the default route, or of IPv6 another one of the interface that
// has the default route of IPv4. Nil: there is none.
func ofFamily(ipv4 bool) net.IP {
	kind := net.IPv6zero
	if ipv4 {
		kind = net.IPv4zero
	}
	chosen, err := utilnet.ResolveBindAddress(kind)
	if err != nil {
		return nil
	}
	if (chosen.To4() != nil) == ipv4 {
		return chosen
	}
	if ipv4 {
		return nil
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue
		}
		var found net.IP
		here := false
		for _, a := range addresses {
			n, ok := a.(*net.IPNet)
			switch {
			case !ok:
			case n.IP.Equal(chosen):
				here = true
			case found == nil && n.IP.To4() == nil && n.IP.IsGlobalUnicast():
				found = n.IP
			}
		}
		if here {
			return found
		}
	}
	return nil
}
