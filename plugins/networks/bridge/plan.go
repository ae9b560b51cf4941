package bridge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pintle.dev/pintle/sdk/network"
)

// most is how many ranges and addresses of one node are looked at. The API takes two ranges.
const most = 16

// cluster is what is known before any other node.
type cluster struct {
	node     []netip.Addr   // this node's addresses; the tunnel is of the family of the first
	own      []netip.Prefix // this node's ranges; the tunnel knows this node by the first
	all      []netip.Prefix // those of the cluster
	services []netip.Prefix
}

// taken is a network that this machine is part of, or has a route to.
type taken struct {
	prefix netip.Prefix
	where  string // as "interface eth0"
	// attached: the machine has an address in it. A route of others is in the way of the
	// same range and of wider ones alone.
	attached bool
}

// outer4 says that the tunnel's packets are of IPv4, whatever they carry.
func (c *cluster) outer4() bool {
	if len(c.node) > 0 {
		return c.node[0].Is4()
	}
	return len(c.own) == 0 || c.own[0].Addr().Is4()
}

// hop is how pods of a range are reached.
type hop struct {
	node string
	to   netip.Prefix
	via  netip.Addr // the node's, of the family of to, for a route on one link; invalid: it has none
	far  netip.Addr // the node's, of the tunnel's family; invalid: it has none
	// end is the node's first range, by which the tunnel knows it; invalid: that is not the node's own.
	end netip.Prefix
	// key is what the node's Node says, by which packets to it are encrypted.
	key string
}

// plan says how the pods of other nodes are reached, and which ranges are refused. local are the
// addresses of this machine. held are the ranges that nodes had before. A Node that claims one of them
// later does not get it, however old it is. Of two that claim another range the one that
// registered first has it: nodes come in that order. claimed is held for the next time.
func (c *cluster) plan(nodes []*network.Node, machine []taken, local []netip.Addr, held map[netip.Prefix]string) (hops []hop, refused []*network.Refusal, claimed map[netip.Prefix]string) {
	claimed = map[netip.Prefix]string{}
	ends := map[string]netip.Prefix{}
	for _, own := range c.own {
		ends[hardware(own).String()] = own
	}
	for _, holders := range []bool{true, false} {
		for _, node := range nodes {
			refuse := func(format string, args ...any) {
				refused = append(refused, &network.Refusal{Node: node.GetName(), Reason: fmt.Sprintf(format, args...)})
			}
			ranges := node.GetPodCidrs()
			if len(ranges) > most {
				if !holders {
					refuse("it has %d ranges of pod IPs; want %d at most", len(ranges), most)
				}
				continue
			}
			for _, text := range ranges {
				if to, err := netip.ParsePrefix(text); (err == nil && held[to] == node.GetName()) != holders {
					continue
				}
				to, fault := c.claim(text, claimed)
				first := text == ranges[0]
				if other, ok := ends[hardware(to).String()]; ok && first && fault == "" {
					fault = fmt.Sprintf("its range of pod IPs %s has the hardware address of %s in the tunnel", to, other)
				}
				if fault != "" {
					refuse("%s", fault)
					continue
				}
				// What is in the way on this machine may pass. A holder keeps its range
				// meanwhile: another that got a part of it would hold that for good.
				fault = c.inTheWay(to, machine)
				if fault == "" || holders {
					claimed[to] = node.GetName()
					if first {
						ends[hardware(to).String()] = to
					}
				}
				if fault != "" {
					refuse("%s", fault)
					continue
				}
				if len(node.GetAddresses()) == 0 {
					continue // a machine that registers says its address a moment later
				}
				via, fault := c.address(node, to.Addr().Is4(), local)
				far, _ := c.address(node, c.outer4(), local)
				if !via.IsValid() && !far.IsValid() {
					refuse("%s", fault)
					continue
				}
				end, _ := netip.ParsePrefix(ranges[0]) // whether it is the node's own is known at last
				hops = append(hops, hop{node.GetName(), to, via, far, end, node.GetPublicKey()})
			}
		}
	}
	for i := range hops {
		if h := &hops[i]; claimed[h.end] != h.node {
			h.end = netip.Prefix{}
		}
	}
	return hops, refused, claimed
}

// claim reads a range of a node, and says why the node cannot have it.
func (c *cluster) claim(text string, claimed map[netip.Prefix]string) (to netip.Prefix, fault string) {
	to, err := netip.ParsePrefix(text)
	if err != nil || to != to.Masked() || to.Addr().Is4In6() {
		return to, fmt.Sprintf("its range of pod IPs %.64q is none", text)
	}
	within := func(r netip.Prefix) bool { return r.Bits() <= to.Bits() && r.Overlaps(to) }
	if !slices.ContainsFunc(c.all, within) {
		return to, fmt.Sprintf("its range of pod IPs %s is outside of the cluster's, %s (node.clusterCIDRs)", to, list(c.all))
	}
	for _, own := range c.own {
		if own.Overlaps(to) {
			return to, fmt.Sprintf("its range of pod IPs %s overlaps %s of this node", to, own)
		}
	}
	var first netip.Prefix // of those in the way, so that the reason is the same each time
	for other := range claimed {
		if other.Overlaps(to) && (!first.IsValid() || other.Addr().Less(first.Addr())) {
			first = other
		}
	}
	if first.IsValid() {
		return to, fmt.Sprintf("its range of pod IPs %s overlaps %s of node %s, which had it before", to, first, claimed[first])
	}
	return to, ""
}

// inTheWay says what keeps this machine from a route to a range that a node can have.
func (c *cluster) inTheWay(to netip.Prefix, machine []taken) (fault string) {
	for _, s := range c.services {
		if s.Overlaps(to) {
			return fmt.Sprintf("its range of pod IPs %s overlaps that of services, %s", to, s)
		}
	}
	for _, m := range machine {
		if m.prefix.Overlaps(to) && (m.attached || m.prefix.Bits() >= to.Bits()) {
			return fmt.Sprintf("its range of pod IPs %s overlaps %s of this machine (%s)", to, m.prefix, m.where)
		}
	}
	return ""
}

// address is the first of a node's addresses of a family that can be a node's.
func (c *cluster) address(node *network.Node, ipv4 bool, local []netip.Addr) (via netip.Addr, fault string) {
	fault = "it has no address (InternalIP) of " + familyName(ipv4) + ", which its range of pod IPs is of"
	for _, text := range node.GetAddresses()[:min(most, len(node.GetAddresses()))] {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			fault = fmt.Sprintf("its address %.64q is none", text)
			continue
		}
		a = a.Unmap()
		if a.Is4() != ipv4 {
			continue
		}
		among := func(ranges []netip.Prefix) bool {
			return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
		}
		switch {
		case slices.Contains(local, a):
			fault = fmt.Sprintf("its address %s is this machine's", a)
		case !a.IsGlobalUnicast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
			fault = fmt.Sprintf("its address %s is not the address of a machine", a)
		case among(c.all) || among(c.services) || among(c.own):
			fault = fmt.Sprintf("its address %s is in a range of pods or services", a)
		default:
			return a, ""
		}
	}
	return via, fault
}

// collision says with which network of the machine this node's own ranges collide, or those of
// services: what the machine sends to that network would go to services. A single address is what
// the proxy ipvs has of a service on an interface of its own.
func (c *cluster) collision(machine []taken) error {
	for _, s := range c.services {
		for _, m := range machine {
			if m.attached && !m.prefix.IsSingleIP() && m.prefix.Overlaps(s) {
				return fmt.Errorf("range of services %s overlaps the network %s of %s, which the machine would reach no more; choose another range (api.serviceCIDR)", s, m.prefix, m.where)
			}
		}
	}
	for _, own := range c.own {
		for _, m := range machine {
			if m.attached && m.prefix.Overlaps(own) {
				return fmt.Errorf("range of pod IPs %s of this node overlaps the network %s of %s; give the node another range (node.podCIDR, or clusterCIDR of who gives ranges)", own, m.prefix, m.where)
			}
		}
		for _, s := range c.services {
			if s.Overlaps(own) {
				return fmt.Errorf("range of pod IPs %s of this node overlaps that of services, %s", own, s)
			}
		}
	}
	return nil
}

func familyName(ipv4 bool) string {
	if ipv4 {
		return "IPv4"
	}
	return "IPv6"
}

func list(prefixes []netip.Prefix) string {
	words := make([]string, len(prefixes))
	for i, p := range prefixes {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}
