package nftables

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// Verdicts of maps, beside names of chains.
const verdictDrop = "drop"

// rank says whose an address is where two ports want it: the lower rank has it.
type rank uint8

const (
	asClusterIP rank = iota // the cluster's own, whatever other services claim
	asBalancer
	asExternal // each user who may write a service can name an external IP
)

// element is an element that a port wants.
type element struct {
	item
	value string // a chain, verdictDrop, or bytes
	rank
}

// plan is what one port of one service wants in one family's table.
type plan struct {
	elements  []element
	chains    []chain
	endpoints int
}

// planner plans ports for one family.
type planner struct {
	f       *family
	nodeIPs []netip.Addr
}

// draft is a plan that is being made.
type draft struct {
	plan
	f              *family
	port           *serviceport.Port
	base           string // of names of its own
	protocol       byte
	service        []byte // front of the cluster IP
	cluster, local []netip.AddrPort
}

// plan says what a port wants. A port whose protocol, address or number no packet can have
// wants nothing; of endpoints, those are left out.
func (pl planner) plan(p *serviceport.Port) plan {
	protocol, known := protocols[p.Protocol]
	address, ours := pl.f.parse(p.ClusterIP)
	number, valid := portNumber(p.Number)
	if !known || !ours || !valid {
		return plan{}
	}
	d := draft{f: pl.f, port: p, base: baseName(p.ID), protocol: protocol, service: front(address, protocol, number)}
	d.cluster, d.local = pl.f.targets(p.Cluster), pl.f.targets(p.Local)
	d.hairpins()
	if !p.InternalLocal || p.Outward() {
		// Even where policy is Local, pods and the node itself reach an address for outside
		// by all endpoints.
		d.list(clusterEndpoints, clusterMembers, d.cluster)
	}
	if p.InternalLocal || p.ExternalLocal && p.Outward() {
		d.list(localEndpoints, localMembers, d.local)
	}
	d.add(clusterIPs, address.AsSlice(), "", asClusterIP)
	inside := d.cluster
	if p.InternalLocal {
		inside = d.local
	}
	if len(inside) > 0 {
		d.add(serviceIPs, d.service, d.picks(byService, p.InternalLocal), asClusterIP)
	} else {
		d.add(noEndpointServices, d.service, d.refusal(), asClusterIP)
	}
	for _, ip := range p.ExternalIPs {
		if a, ok := pl.f.parse(ip); ok {
			d.outside(front(a, protocol, number), asExternal)
		}
	}
	pl.balancers(&d, number)
	if n, ok := portNumber(p.NodePort); ok {
		d.nodePort(nodePort(protocol, n))
	}
	return d.plan
}

// targets are the endpoints that packets can be sent to.
func (f *family) targets(list []serviceport.Endpoint) []netip.AddrPort {
	out := make([]netip.AddrPort, 0, len(list))
	for _, e := range list {
		a, ok := f.parse(e.IP)
		port, valid := portNumber(e.Port)
		if ok && valid {
			out = append(out, netip.AddrPortFrom(a, port))
		}
	}
	return out
}

func (d *draft) add(set setID, key []byte, value string, r rank) {
	d.elements = append(d.elements, element{newItem(set, key), value, r})
}

func (d *draft) sticky() bool { return d.port.Sticky > 0 }

// hairpins: an endpoint may ask the service and be sent to itself. One on another node comes here
// only by addresses for outside, and as itself only where they keep the client's address.
func (d *draft) hairpins() {
	remote := d.port.ExternalLocal && d.port.Outward()
	for _, e := range d.port.Reachable() {
		list := d.f.targets([]serviceport.Endpoint{e})
		d.endpoints += len(list)
		if !e.Local && !remote || len(list) == 0 {
			continue
		}
		a := list[0].Addr().AsSlice()
		key := slices.Concat(a, a, nodePort(d.protocol, list[0].Port()))
		d.add(hairpinConnections, key, "", asClusterIP)
	}
}

// list writes the endpoints of one traffic policy by their numbers.
func (d *draft) list(numbered, members setID, endpoints []netip.AddrPort) {
	for i, e := range endpoints {
		to := target(e)
		d.add(numbered, appendNumber(slices.Clone(d.service), uint32(i)), string(to), asClusterIP)
		if d.sticky() {
			d.add(members, slices.Concat(d.service, to), "", asClusterIP)
		}
	}
}

// chain adds a chain once and returns its name.
func (d *draft) chain(c chain) string {
	if !slices.Contains(d.chains, c) {
		d.chains = append(d.chains, c)
	}
	return c.name
}

// picks is the chain that sends a packet to an endpoint of a policy, which has some.
func (d *draft) picks(e entrance, local bool) string {
	n := len(d.cluster)
	if local {
		n = len(d.local)
	}
	if !d.sticky() {
		return d.chain(sharedPick(e, local, n))
	}
	name := listName(local)
	return d.chain(chain{
		name: "sticky-" + name + "-" + d.base, kind: stick, local: local, n: n, service: string(d.service), timeout: d.port.Sticky,
		// A map keeps the time that it was made with.
		affinity: "affinity-" + name + "-" + d.base + "-" + strconv.FormatInt(int64(d.port.Sticky.Seconds()), 10),
	})
}

// refusal is what happens to packets for a policy without endpoints: refused where nobody
// has one; dropped where other nodes have.
func (d *draft) refusal() string {
	if len(d.cluster) > 0 {
		return verdictDrop
	}
	return chainReject
}

// outward is the chain of traffic to addresses for outside.
func (d *draft) outward(e entrance) string {
	c := chain{kind: outward, policyLocal: d.port.ExternalLocal, to: d.picks(e, false)}
	c.name = "outside-" + c.to
	if c.policyLocal && len(d.local) > 0 {
		c.toLocal = d.picks(e, true)
	}
	if c.policyLocal {
		c.name += "-local-" + strconv.Itoa(len(d.local))
	}
	if d.sticky() {
		c.name = "outside-" + d.base // whatever it holds, it is the port's own
	}
	return d.chain(c)
}

// hasExternal reports whether traffic from outside has an endpoint.
func (d *draft) hasExternal() bool {
	if d.port.ExternalLocal {
		return len(d.local) > 0
	}
	return len(d.cluster) > 0
}

// outside serves an external IP or a load balancer's address.
func (d *draft) outside(front []byte, r rank) {
	if len(d.cluster) > 0 {
		d.add(serviceIPs, front, d.outward(byExternal), r)
		d.add(externalServices, front, string(d.service), r)
	}
	if !d.hasExternal() {
		d.add(noEndpointServices, front, d.refusal(), r)
	}
}

func (d *draft) nodePort(key []byte) {
	if len(d.cluster) > 0 {
		d.add(serviceNodePorts, key, d.outward(byNodePort), asClusterIP)
		d.add(nodePortServices, key, string(d.service), asClusterIP)
	}
	if !d.hasExternal() {
		d.add(noEndpointNodePorts, key, d.refusal(), asClusterIP)
	}
}

// balancers serves the load balancer's addresses, within its source ranges. Ranges of another
// family let no packet pass. A node within them has the balancer's address for its own when it
// asks by it.
func (pl planner) balancers(d *draft, number uint16) {
	p := d.port
	var addresses []netip.Addr
	for _, ip := range p.LoadBalancerIPs {
		if a, ok := pl.f.parse(ip); ok {
			addresses = append(addresses, a)
		}
	}
	if len(addresses) == 0 {
		return
	}
	var guarded string
	if p.Restricted {
		allowed := slices.Clone(p.SourceRanges)
		if slices.ContainsFunc(pl.nodeIPs, func(a netip.Addr) bool { return p.Allows(a.String()) }) {
			for _, a := range addresses {
				allowed = append(allowed, netip.PrefixFrom(a, a.BitLen()).String())
			}
		}
		guarded = d.chain(chain{name: "firewall-" + d.base, kind: guard, allowed: strings.Join(allowed, " ")})
	}
	for _, a := range addresses {
		key := front(a, d.protocol, number)
		d.outside(key, asBalancer)
		if guarded != "" {
			d.add(firewallIPs, key, guarded, asBalancer)
		}
	}
}
