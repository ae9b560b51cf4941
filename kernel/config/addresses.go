package config

import (
	"fmt"
	"net/netip"
	"strings"

	"pintle.dev/pintle/kernel/dualstack"
)

// checkRanges says what is wrong with a range, or with one of each family, and what would be right; or "".
func checkRanges(s string) string {
	for one := range strings.SplitSeq(s, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(one)); err != nil || p.Masked() != p || p.Addr().Is4In6() {
			return fmt.Sprintf("%q is not an address range such as 10.96.0.0/16 with its host bits zero", one)
		}
	}
	if _, err := dualstack.Ranges(s); err != nil {
		return err.Error()
	}
	return ""
}

// checkAddresses compares the ranges of services, of pods and the node's addresses: none overlaps another, and those of
// one kind have the families of the others in one order.
func checkAddresses(cfg *Config, add func(group, key, format string, args ...any)) {
	services, err := dualstack.Ranges(cfg.API.ServiceCIDR)
	if err != nil {
		return // said elsewhere
	}
	pods, _ := dualstack.Ranges(cfg.Node.PodCIDR) // none where they are given later
	if cfg.Node.Enabled && cfg.Node.DNS != "" && services[0].Addr().BitLen()-services[0].Bits() < 4 {
		add("api", "serviceCIDR", "%s has no tenth address, which is that of node.dns; want a range of 16 addresses or more", services[0])
	}
	const another = "%s overlaps api.serviceCIDR %s; choose another range"
	for _, s := range services {
		for _, p := range pods {
			if s.Overlaps(p) {
				add("node", "podCIDR", another, p, s)
			}
		}
		for _, text := range cfg.Node.ClusterCIDRs {
			if all, err := netip.ParsePrefix(text); err == nil && s.Overlaps(all) {
				add("node", "clusterCIDRs", another, all, s)
			}
		}
	}
	if hollow := netip.MustParsePrefix(HollowPodRange); cfg.Hollow.Nodes > 0 {
		const ofHollow = "%s overlaps %s, the pod IPs of hollow nodes; choose another range"
		for _, s := range services {
			if s.Overlaps(hollow) {
				add("api", "serviceCIDR", ofHollow, s, hollow)
			}
		}
		for _, p := range pods {
			if cfg.Node.Enabled && p.Overlaps(hollow) {
				add("node", "podCIDR", ofHollow, p, hollow)
			}
		}
	}
	if cfg.Node.Enabled {
		checkFamilies(cfg, services, pods, add)
	}
}

// checkFamilies: clients, pods and nodes find each other by the first family, and services of a family lead to pods of
// that family.
func checkFamilies(cfg *Config, services, pods []netip.Prefix, add func(group, key, format string, args ...any)) {
	first := dualstack.Family(services[0].Addr())
	const order = "%s begins with %s, and api.serviceCIDR %s with %s; want the same family first"
	if len(pods) > 0 && dualstack.Family(pods[0].Addr()) != first {
		add("node", "podCIDR", order, cfg.Node.PodCIDR, dualstack.Family(pods[0].Addr()), cfg.API.ServiceCIDR, first)
	}
	if len(pods) == 1 && len(services) == 2 {
		add("node", "podCIDR", "%s has one IP family, and api.serviceCIDR %s has two; want a range of each", cfg.Node.PodCIDR, cfg.API.ServiceCIDR)
	}
	addresses, err := dualstack.Addresses(cfg.Node.Address)
	if err == nil && dualstack.Family(addresses[0]) != first {
		add("node", "address", order, cfg.Node.Address, dualstack.Family(addresses[0]), cfg.API.ServiceCIDR, first)
	}
}
