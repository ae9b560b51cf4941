package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"pintle.dev/pintle/plugins/controllers/settings"
)

// Config has the names and defaults of kube-controller-manager's configuration, which has no reservedCIDRs. A key that
// is left out has its default.
type Config struct {
	AllocateNodeCIDRs    bool     `json:"allocateNodeCIDRs"`    // false: nothing is done
	ClusterCIDR          string   `json:"clusterCIDR"`          // one range, or one of each family with a comma between them
	ServiceCIDR          string   `json:"serviceCIDR"`          // is left out of clusterCIDR
	SecondaryServiceCIDR string   `json:"secondaryServiceCIDR"` // too; of the other family
	ReservedCIDRs        []string `json:"reservedCIDRs"`        // are left out too: ranges of nodes that name their own
	NodeCIDRMaskSize     int      `json:"nodeCIDRMaskSize"`     // of a single range, in bits
	NodeCIDRMaskSizeIPv4 int      `json:"nodeCIDRMaskSizeIPv4"` // 24
	NodeCIDRMaskSizeIPv6 int      `json:"nodeCIDRMaskSizeIPv6"` // 64
}

const standardIPv4, standardIPv6 = 24, 64

// readConfig reads JSON; no key may be unknown and no value out of range.
func readConfig(data []byte) (Config, error) {
	var c Config
	if err := settings.Read(data, &c); err != nil {
		return c, err
	}
	return c, errors.Join(
		settings.Within("nodeCIDRMaskSize", c.NodeCIDRMaskSize, 0, 128),
		settings.Within("nodeCIDRMaskSizeIPv4", c.NodeCIDRMaskSizeIPv4, 0, 32),
		settings.Within("nodeCIDRMaskSizeIPv6", c.NodeCIDRMaskSizeIPv6, 0, 128),
	)
}

// pools are the ranges that blocks are taken from.
func (c *Config) pools() ([]*pool, error) {
	clusters, err := c.clusters()
	if err != nil {
		return nil, err
	}
	var services []netip.Prefix
	for _, s := range []struct{ key, text string }{{"serviceCIDR", c.ServiceCIDR}, {"secondaryServiceCIDR", c.SecondaryServiceCIDR}} {
		if strings.TrimSpace(s.text) == "" {
			continue
		}
		p, err := prefix(s.key, s.text)
		if err != nil {
			return nil, err
		}
		services = append(services, p)
	}
	if len(services) == 2 && services[0].Addr().Is4() == services[1].Addr().Is4() {
		return nil, errors.New("configuration: serviceCIDR and secondaryServiceCIDR are of one IP family; want one of each")
	}
	var reserved []netip.Prefix
	for _, text := range c.ReservedCIDRs {
		p, err := prefix("reservedCIDRs", text)
		if err != nil {
			return nil, err
		}
		reserved = append(reserved, p)
	}
	var pools []*pool
	for _, cluster := range clusters {
		bits, err := c.bits(cluster, len(clusters) > 1)
		if err != nil {
			return nil, err
		}
		p, err := newPool(cluster, bits)
		if err != nil {
			return nil, err
		}
		for _, s := range services {
			p.reserve(s)
		}
		for _, r := range reserved {
			p.reserveForNode(r)
		}
		pools = append(pools, p)
	}
	return pools, nil
}

func (c *Config) clusters() ([]netip.Prefix, error) {
	if strings.TrimSpace(c.ClusterCIDR) == "" {
		return nil, errors.New("configuration: clusterCIDR is empty; allocateNodeCIDRs needs it")
	}
	var clusters []netip.Prefix
	for text := range strings.SplitSeq(c.ClusterCIDR, ",") {
		p, err := prefix("clusterCIDR", text)
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, p)
	}
	if len(clusters) > 2 || len(clusters) == 2 && clusters[0].Addr().Is4() == clusters[1].Addr().Is4() {
		return nil, fmt.Errorf("configuration: clusterCIDR: %q is more than one range of each IP family", c.ClusterCIDR)
	}
	return clusters, nil
}

func prefix(key, text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("configuration: %s: %q is not an address range such as 10.244.0.0/16", key, text)
	}
	return p.Masked(), nil
}

// bits is the length of a node's prefix. Which keys may be together is kube-controller-manager's rule.
func (c *Config) bits(cluster netip.Prefix, dual bool) (int, error) {
	v4 := cluster.Addr().Is4()
	switch {
	case dual && c.NodeCIDRMaskSize != 0:
		return 0, errors.New("configuration: nodeCIDRMaskSize is for one range; of two say nodeCIDRMaskSizeIPv4 and nodeCIDRMaskSizeIPv6")
	case c.NodeCIDRMaskSize != 0 && (c.NodeCIDRMaskSizeIPv4 != 0 || c.NodeCIDRMaskSizeIPv6 != 0):
		return 0, errors.New("configuration: nodeCIDRMaskSize is not possible beside nodeCIDRMaskSizeIPv4 and nodeCIDRMaskSizeIPv6")
	case !dual && !v4 && c.NodeCIDRMaskSizeIPv4 != 0:
		return 0, fmt.Errorf("configuration: nodeCIDRMaskSizeIPv4 is set, and clusterCIDR %s is of IPv6", cluster)
	case !dual && v4 && c.NodeCIDRMaskSizeIPv6 != 0:
		return 0, fmt.Errorf("configuration: nodeCIDRMaskSizeIPv6 is set, and clusterCIDR %s is of IPv4", cluster)
	case c.NodeCIDRMaskSize != 0:
		return c.NodeCIDRMaskSize, nil
	case v4 && c.NodeCIDRMaskSizeIPv4 != 0:
		return c.NodeCIDRMaskSizeIPv4, nil
	case v4:
		return standardIPv4, nil
	case c.NodeCIDRMaskSizeIPv6 != 0:
		return c.NodeCIDRMaskSizeIPv6, nil
	}
	return standardIPv6, nil
}
