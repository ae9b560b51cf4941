package ipvs

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// protocols are the numbers of the protocols that services may have.
var protocols = map[string]uint8{"TCP": unix.IPPROTO_TCP, "UDP": unix.IPPROTO_UDP, "SCTP": unix.IPPROTO_SCTP}

// front is where packets to a service arrive.
type front struct {
	address  netip.Addr
	protocol uint8
	port     uint16
}

// rank says whose a front is where two ports want it: the lower rank has it.
type rank uint8

const (
	asClusterIP rank = iota // the cluster's own, and node ports, whatever other services claim
	asBalancer
	asExternal // each user who may write a service can name an external IP
)

// refusal is what happens to packets to a front without endpoints.
type refusal string

const (
	served   refusal = ""
	dropped  refusal = "drop"   // other nodes have endpoints
	rejected refusal = "reject" // none has
)

// claim is what a port wants of a front.
type claim struct {
	front
	rank    rank
	bind    bool // its address is to be on pintle-ipvs0
	cluster bool // it is a cluster IP
	// everywhere says that packets from outside may go to any node, so that they get this
	// node's address and the answer comes back by here.
	everywhere bool
	endpoints  []netip.AddrPort
	refusal    refusal
	// inside are the endpoints for pods and this node, where these are others.
	inside []netip.AddrPort
	sticky uint32 // seconds; 0: no affinity
	// allowed are ranges that clients have to be in, separated by spaces, where guarded.
	guarded bool
	allowed string
}

// family is what differs between IPv4 and IPv6 here and in the tables.
type family struct {
	name string
	of   serviceport.Family
	bits int
	// conntrack is what the table of tracked connections calls it.
	conntrack conntrack.Family
	tableFamily
}

// parse reads an address of this family that packets can have from machine to machine; any other
// text is none. The loopback's own and those of groups are never put on a device.
func (f *family) parse(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	a = a.Unmap()
	return a, a.BitLen() == f.bits && a.IsGlobalUnicast()
}

// prefixes reads the ranges of this family among texts.
func (f *family) prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().BitLen() == f.bits {
			out = append(out, p.Masked())
		}
	}
	return out
}

// targets are the endpoints that packets can be sent to.
func (f *family) targets(list []serviceport.Endpoint) []netip.AddrPort {
	var out []netip.AddrPort
	for _, e := range list {
		if a, ok := f.parse(e.IP); ok && e.Port > 0 && e.Port < 1<<16 {
			out = append(out, netip.AddrPortFrom(a, uint16(e.Port)))
		}
	}
	return out
}

// hairpin is an endpoint that may ask a service and be sent to itself.
type hairpin struct {
	netip.AddrPort
	protocol uint8
}

// plan is what one port of one service wants.
type plan struct {
	claims    []claim
	hairpins  []hairpin
	endpoints int
}

// planner plans ports for one family.
type planner struct {
	f       *family
	nodeIPs []netip.Addr
	// nodePortsOn are the machine's addresses that node ports are served on.
	nodePortsOn []netip.Addr
}

// plan says what a port wants. A port whose protocol, address or number no packet can have wants
// nothing; of endpoints, those are left out.
func (pl planner) plan(p *serviceport.Port) plan {
	protocol, known := protocols[p.Protocol]
	address, ours := pl.f.parse(p.ClusterIP)
	if !known || !ours || p.Number <= 0 || p.Number >= 1<<16 {
		return plan{}
	}
	var out plan
	for _, e := range p.Reachable() {
		for _, to := range pl.f.targets([]serviceport.Endpoint{e}) {
			out.endpoints++
			// One on another node comes here only by addresses for outside, and as itself only
			// where they keep the client's address.
			if e.Local || p.ExternalLocal && p.Outward() {
				out.hairpins = append(out.hairpins, hairpin{to, protocol})
			}
		}
	}
	cluster, local := pl.f.targets(p.Cluster), pl.f.targets(p.Local)
	refuse := func(endpoints []netip.AddrPort) refusal {
		switch {
		case len(endpoints) > 0:
			return served
		case len(cluster) > 0:
			return dropped
		}
		return rejected
	}
	at := front{address, protocol, uint16(p.Number)}
	c := claim{front: at, bind: true, cluster: true, endpoints: cluster, sticky: uint32(p.Sticky.Seconds())}
	if p.InternalLocal {
		c.endpoints = local
	}
	c.refusal = refuse(c.endpoints)
	out.claims = append(out.claims, c)

	c = claim{front: at, everywhere: true, endpoints: cluster, sticky: c.sticky}
	if p.ExternalLocal {
		c.everywhere, c.endpoints, c.inside = false, local, cluster
	}
	c.refusal = refuse(c.endpoints)
	outside := func(a netip.Addr, r rank, port int) *claim {
		c := c
		c.address, c.rank, c.port = a, r, uint16(port)
		out.claims = append(out.claims, c)
		return &out.claims[len(out.claims)-1]
	}
	for _, a := range pl.addresses(p.ExternalIPs) {
		outside(a, asExternal, p.Number).bind = true
	}
	balancers := pl.addresses(p.LoadBalancerIPs)
	allowed := pl.allowed(p, balancers)
	for _, a := range balancers {
		c := outside(a, asBalancer, p.Number)
		c.bind, c.guarded, c.allowed = true, p.Restricted, allowed
	}
	if p.NodePort > 0 && p.NodePort < 1<<16 {
		for _, a := range pl.nodePortsOn {
			outside(a, asClusterIP, p.NodePort)
		}
	}
	return out
}

func (pl planner) addresses(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		if a, ok := pl.f.parse(text); ok && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// allowed are the ranges that may use the load balancer's addresses. A node within them has the
// balancer's address for its own when it asks by it.
func (pl planner) allowed(p *serviceport.Port, balancers []netip.Addr) string {
	var out []string
	for _, r := range pl.f.prefixes(p.SourceRanges) {
		out = append(out, r.String())
	}
	if slices.ContainsFunc(pl.nodeIPs, func(a netip.Addr) bool { return p.Allows(a.String()) }) {
		for _, a := range balancers {
			out = append(out, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	return strings.Join(out, " ")
}
