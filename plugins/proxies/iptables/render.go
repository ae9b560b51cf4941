package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// Names of the fixed chains (requirement PIT-43).
const (
	chainServices    = "KUBE-SERVICES"
	chainNodePorts   = "KUBE-NODEPORTS"
	chainPostrouting = "KUBE-POSTROUTING"
	chainMark        = "KUBE-MARK-MASQ"
	chainFirewall    = "KUBE-FIREWALL"
	chainExternal    = "KUBE-EXTERNAL-SERVICES"
	chainForward     = "KUBE-FORWARD"
	chainOutside     = "KUBE-MARK-OUTSIDE"   // marks what comes from outside the cluster
	chainNotAllowed  = "KUBE-PROXY-FIREWALL" // drops what a load balancer's source ranges leave out
)

// hash is the first 16 characters of base32(sha256(…)) (requirement FIL-16).
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "")))
	return base32.StdEncoding.EncodeToString(sum[:])[:16]
}

func serviceChain(id serviceport.ID) string {
	return "KUBE-SVC-" + hash(id.String(), strings.ToLower(id.Protocol))
}

func localChain(id serviceport.ID) string {
	return "KUBE-SVL-" + hash(id.String(), strings.ToLower(id.Protocol))
}

func externalChain(id serviceport.ID) string {
	return "KUBE-EXT-" + hash(id.String(), strings.ToLower(id.Protocol))
}

func sourcesChain(id serviceport.ID) string {
	return "KUBE-FW-" + hash(id.String(), strings.ToLower(id.Protocol))
}

func endpointChain(id serviceport.ID, e serviceport.Endpoint) string {
	return "KUBE-SEP-" + hash(id.String(), strings.ToLower(id.Protocol), e.Address())
}

// rules is what one service port contributes: lines without "-A chain" for the
// shared chains, and whole chains of its own.
type rules struct {
	services  []string            // nat KUBE-SERVICES
	nodePorts []string            // nat KUBE-NODEPORTS
	rejects   []string            // filter KUBE-SERVICES
	external  []string            // filter KUBE-EXTERNAL-SERVICES
	firewall  []string            // filter KUBE-PROXY-FIREWALL
	health    []string            // filter KUBE-NODEPORTS
	chains    map[string][]string // nat chains of this port, by name
}

// renderer turns service ports into rules.
type renderer struct {
	masqueradeAll bool
	clusterCIDRs  []string // where pods are
	nodeIPs       []string
}

func comment(format string, args ...any) string {
	return "-m comment --comment " + strconv.Quote(fmt.Sprintf(format, args...))
}

// port renders one service port; the order of its rules is that of
// requirement PIT-41.
func (r *renderer) port(p *serviceport.Port) rules {
	out := rules{chains: map[string][]string{}}
	proto := strings.ToLower(p.Protocol)
	to := func(ip string, port int) string {
		return fmt.Sprintf("-d %s/32 -p %s -m %s --dport %d", ip, proto, proto, port)
	}
	internal, external := p.Internal(), p.External()
	policy := func(local bool) string {
		if local {
			return localChain(p.ID)
		}
		return serviceChain(p.ID)
	}

	clusterIP := join(comment("%s cluster IP", p.ID), to(p.ClusterIP, p.Number))
	var marks []string // at the head of the chain for traffic from inside
	if len(internal) == 0 {
		// PIT-24: without endpoints the cluster IP refuses at once. With
		// internalTrafficPolicy Local, packets are dropped instead, as 1.36
		// does: other nodes may well have endpoints.
		why, verdict := missing(p)
		out.rejects = append(out.rejects, join(why, to(p.ClusterIP, p.Number), verdict))
	} else {
		switch {
		case r.masqueradeAll: // PIT-17, ODD-21: the mark comes first, then the jump
			out.services = append(out.services, join(clusterIP, "-j", chainMark))
		case len(r.clusterCIDRs) > 0:
			// Somebody routes the cluster's range to this node; the answer must
			// come back by it.
			marks = []string{join(clusterIP, "-j", chainOutside)}
		}
		out.services = append(out.services, join(clusterIP, "-j", policy(p.InternalLocal)))
	}

	if p.HealthCheckPort > 0 {
		out.health = append(out.health, join(comment("%s health check node port", p.Name), "-p tcp -m tcp --dport", strconv.Itoa(p.HealthCheckPort), "-j ACCEPT"))
	}
	if len(external) == 0 {
		// The addresses for traffic from outside refuse likewise, as 1.36 does
		// (PIT-25 names the cluster IP alone).
		why, verdict := missing(p)
		for _, ip := range slices.Concat(p.ExternalIPs, p.LoadBalancerIPs) {
			out.external = append(out.external, join(why, to(ip, p.Number), verdict))
		}
		if p.NodePort > 0 {
			out.external = append(out.external, join(why, fmt.Sprintf("-m addrtype --dst-type LOCAL -p %s -m %s --dport %d", proto, proto, p.NodePort), verdict))
		}
	}
	if len(p.Cluster) == 0 {
		return out // nobody has an endpoint
	}
	if !p.InternalLocal || p.Outward() {
		r.balance(out.chains, policy(false), p, p.Cluster)
	}
	if (p.InternalLocal || p.ExternalLocal && p.Outward()) && len(p.Local) > 0 {
		r.balance(out.chains, policy(true), p, p.Local)
	}
	if len(marks) > 0 {
		chain := policy(p.InternalLocal)
		out.chains[chain] = slices.Concat(marks, out.chains[chain])
	}
	if !p.Outward() {
		return out
	}

	// What is for outside (PIT-18, PIT-21, PIT-22) goes through one chain, as
	// 1.36's does.
	outside := externalChain(p.ID)
	out.chains[outside] = r.outside(p, len(external) > 0)
	for _, ip := range p.ExternalIPs {
		out.services = append(out.services, join(comment("%s external IP", p.ID), to(ip, p.Number), "-j", outside))
	}
	balancer := outside
	if p.Restricted && len(p.LoadBalancerIPs) > 0 {
		balancer = sourcesChain(p.ID)
		out.chains[balancer] = r.sources(p, outside)
	}
	for _, ip := range p.LoadBalancerIPs {
		out.services = append(out.services, join(comment("%s loadbalancer IP", p.ID), to(ip, p.Number), "-j", balancer))
		if balancer != outside {
			// What the ranges let pass has another destination by now.
			out.firewall = append(out.firewall, join(comment("%s traffic not accepted by %s", p.ID, balancer), to(ip, p.Number), "-j DROP"))
		}
	}
	if p.NodePort > 0 { // ODD-22: protocol and port alone
		out.nodePorts = append(out.nodePorts, join(comment("%s", p.ID), fmt.Sprintf("-p %s -m %s --dport %d", proto, proto, p.NodePort), "-j", outside))
	}
	return out
}

// outside renders the chain of traffic to addresses for outside. Where it may go
// to any node it gets this node's address, so that the answer comes back by here.
// Under externalTrafficPolicy Local it keeps the client's; pods and this node use
// all endpoints, as if they had gone out to a load balancer and come back.
func (r *renderer) outside(p *serviceport.Port, has bool) []string {
	var lines []string
	if !p.ExternalLocal {
		lines = append(lines, join(comment("masquerade traffic for %s external destinations", p.ID), "-j", chainMark))
	} else {
		all := serviceChain(p.ID)
		for _, cidr := range r.clusterCIDRs {
			lines = append(lines, join(comment("pod traffic for %s external destinations", p.ID), "-s", cidr, "-j", all))
		}
		lines = append(lines,
			join(comment("masquerade LOCAL traffic for %s external destinations", p.ID), "-m addrtype --src-type LOCAL -j", chainMark),
			join(comment("route LOCAL traffic for %s external destinations", p.ID), "-m addrtype --src-type LOCAL -j", all))
	}
	switch {
	case has && p.ExternalLocal:
		lines = append(lines, join("-j", localChain(p.ID)))
	case has:
		lines = append(lines, join("-j", serviceChain(p.ID)))
	}
	return lines
}

// sources renders the chain that lets the source ranges of a load balancer pass.
// A node within them has the balancer's address for its own when it asks by it.
func (r *renderer) sources(p *serviceport.Port, to string) []string {
	name := comment("%s loadbalancer IP", p.ID)
	var lines []string
	for _, source := range p.SourceRanges {
		lines = append(lines, join(name, "-s", source, "-j", to))
	}
	if slices.ContainsFunc(r.nodeIPs, p.Allows) {
		for _, ip := range p.LoadBalancerIPs {
			lines = append(lines, join(name, "-s", ip+"/32 -j", to))
		}
	}
	return lines
}

// missing says why a port has no endpoint to offer, and what happens to its
// packets.
func missing(p *serviceport.Port) (why, verdict string) {
	if len(p.Cluster) > 0 {
		return comment("%s has no local endpoints", p.ID), "-j DROP"
	}
	return comment("%s has no endpoints", p.ID), "-j REJECT"
}

// balance appends to chain the affinity and balancing rules for endpoints and
// adds a chain for each (PIT-27 to PIT-34, PIT-42: every affinity rule before
// every balancing rule).
func (r *renderer) balance(chains map[string][]string, chain string, p *serviceport.Port, endpoints []serviceport.Endpoint) {
	name := comment("%s", p.ID)
	proto := strings.ToLower(p.Protocol)
	lines := chains[chain]
	if p.Sticky > 0 {
		seconds := strconv.Itoa(int(p.Sticky.Seconds()))
		for _, e := range endpoints {
			sep := endpointChain(p.ID, e)
			lines = append(lines, join(name, "-m recent --name", sep, "--rcheck --seconds", seconds, "--reap -j", sep))
		}
	}
	for i, e := range endpoints {
		sep := endpointChain(p.ID, e)
		if left := len(endpoints) - i; left > 1 { // ODD-23: 1/(n − i) is even
			lines = append(lines, join(name, "-m statistic --mode random --probability", fmt.Sprintf("%0.10f", 1/float64(left)), "-j", sep))
		} else {
			lines = append(lines, join(name, "-j", sep))
		}
		dnat := join(name, "-p", proto, "-m", proto, "-j DNAT --to-destination", e.Address())
		if p.Sticky > 0 {
			dnat = join(name, "-m recent --name", sep, "--set -p", proto, "-m", proto, "-j DNAT --to-destination", e.Address())
		}
		// PIT-32: a pod that reaches itself must see the node's address.
		chains[sep] = []string{join(name, "-s", e.IP+"/32 -j", chainMark), dnat}
	}
	chains[chain] = lines
}

func join(parts ...string) string { return strings.Join(parts, " ") }

// base is what the chains that no service owns depend on.
type base struct {
	mark         string // value/mask
	localhost    bool   // node ports at 127.0.0.1
	randomFully  bool   // the tools know --random-fully
	clusterCIDRs []string
}

// fixed renders the chains that do not depend on services.
func (b base) fixed() (nat, filter map[string][]string) {
	masquerade := join(comment("kubernetes service traffic requiring SNAT"), "-j MASQUERADE")
	if b.randomFully {
		// Else two connections that start at once may be given the same port.
		masquerade += " --random-fully"
	}
	value, _, _ := strings.Cut(b.mark, "/")
	nat = map[string][]string{
		chainPostrouting: {
			join("-m mark ! --mark", b.mark, "-j RETURN"),
			// A packet that is wrapped by an overlay comes by again.
			join("-j MARK --xor-mark", value),
			masquerade,
		},
		chainMark:    {join("-j MARK --set-xmark", b.mark)},
		chainOutside: nil,
	}
	if len(b.clusterCIDRs) > 0 {
		for _, cidr := range b.clusterCIDRs {
			nat[chainOutside] = append(nat[chainOutside], join("-s", cidr, "-j RETURN"))
		}
		nat[chainOutside] = append(nat[chainOutside], join("-j", chainMark))
	}
	filter = map[string][]string{
		chainFirewall: nil,
		// Where the machine forwards nothing by default, services work all the
		// same.
		chainForward: {
			join(comment("kubernetes forwarding rules"), "-m mark --mark", b.mark, "-j ACCEPT"),
			join(comment("kubernetes forwarding conntrack rule"), "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
		},
	}
	if b.localhost {
		// route_localnet opens 127.0.0.0/8 to the neighbours; this closes it
		// again for everything but answers (CVE-2020-8558).
		filter[chainFirewall] = []string{join(comment("block incoming localnet connections"),
			"-d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP")}
	}
	return nat, filter
}

// lastRule ends KUBE-SERVICES (requirement PIT-36).
func lastRule() string {
	return join(comment("kubernetes service nodeports; NOTE: this must be the last rule in this chain"),
		"-m addrtype --dst-type LOCAL -j", chainNodePorts)
}

// sortedPorts orders ports so that equal state gives equal text.
func sortedPorts(m map[serviceport.ID]*serviceport.Port) []*serviceport.Port {
	out := make([]*serviceport.Port, 0, len(m))
	for _, p := range m {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *serviceport.Port) int {
		if c := strings.Compare(a.ID.String(), b.ID.String()); c != 0 {
			return c
		}
		return strings.Compare(a.Protocol, b.Protocol)
	})
	return out
}
