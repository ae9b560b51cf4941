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
	return "KUBE-XLB-" + hash(id.String(), strings.ToLower(id.Protocol))
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
	chains    map[string][]string // nat chains of this port, by name
}

// renderer turns service ports into rules.
type renderer struct {
	masqueradeAll bool
	podCIDRs      []string
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
	chain := serviceChain(p.ID)
	internal, external := p.Internal(), p.External()

	if len(internal) == 0 {
		// PIT-24: without endpoints the cluster IP refuses at once. With
		// internalTrafficPolicy Local, packets are dropped instead, as 1.36
		// does: other nodes may well have endpoints.
		why, verdict := missing(p)
		out.rejects = append(out.rejects, join(why, to(p.ClusterIP, p.Number), verdict))
	} else {
		// PIT-17, ODD-21: with masqueradeAll the mark comes first, then the jump.
		if r.masqueradeAll {
			out.services = append(out.services, join(comment("%s cluster IP", p.ID), to(p.ClusterIP, p.Number), "-j", chainMark))
		}
		out.services = append(out.services, join(comment("%s cluster IP", p.ID), to(p.ClusterIP, p.Number), "-j", chain))
		r.balance(out.chains, chain, p, internal)
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

	outside := chain
	if p.ExternalLocal || (p.InternalLocal && len(p.Endpoints) > 0) {
		outside = localChain(p.ID)
	}
	if len(p.Endpoints) == 0 {
		return out
	}
	used := false
	for _, ip := range p.ExternalIPs { // PIT-18
		used = true
		match := join(comment("%s external IP", p.ID), to(ip, p.Number))
		if !p.ExternalLocal {
			out.services = append(out.services, join(match, "-j", chainMark))
		}
		out.services = append(out.services,
			join(match, "-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j", outside),
			join(match, "-m addrtype --dst-type LOCAL -j", outside))
	}
	for _, ip := range p.LoadBalancerIPs { // PIT-21
		used = true
		match := join(comment("%s loadbalancer IP", p.ID), to(ip, p.Number))
		if !p.ExternalLocal {
			out.services = append(out.services, join(match, "-j", chainMark))
		}
		if len(p.SourceRanges) == 0 {
			out.services = append(out.services, join(match, "-j", outside))
		}
		for _, source := range p.SourceRanges {
			out.services = append(out.services, join(match, "-s", source, "-j", outside))
		}
	}
	if p.NodePort > 0 { // PIT-22, ODD-22: protocol and port alone
		used = true
		match := join(comment("%s", p.ID), fmt.Sprintf("-p %s -m %s --dport %d", proto, proto, p.NodePort))
		if !p.ExternalLocal {
			out.nodePorts = append(out.nodePorts, join(match, "-j", chainMark))
		}
		out.nodePorts = append(out.nodePorts, join(match, "-j", outside))
	}
	if used && outside != chain {
		r.local(out.chains, outside, chain, p, external, len(internal) > 0)
	}
	return out
}

// missing says why a port has no endpoint to offer, and what happens to its
// packets.
func missing(p *serviceport.Port) (why, verdict string) {
	if len(p.Endpoints) > 0 {
		return comment("%s has no local endpoints", p.ID), "-j DROP"
	}
	return comment("%s has no endpoints", p.ID), "-j REJECT"
}

// local renders the chain of traffic from outside where a traffic policy
// narrows the endpoints: pods and this node use all that the cluster IP has,
// everybody else this node's endpoints, with the client's address kept. Where
// this node has none the chain ends, and KUBE-EXTERNAL-SERVICES drops the packet.
func (r *renderer) local(chains map[string][]string, chain, all string, p *serviceport.Port, external []serviceport.Endpoint, hasInternal bool) {
	var lines []string
	if p.ExternalLocal && hasInternal {
		for _, cidr := range r.podCIDRs {
			lines = append(lines, join(comment("pods reach %s directly", p.ID), "-s", cidr, "-j", all))
		}
		local := comment("this node reaches %s with its own address", p.ID)
		lines = append(lines,
			join(local, "-m addrtype --src-type LOCAL -j", chainMark),
			join(local, "-m addrtype --src-type LOCAL -j", all))
	}
	chains[chain] = lines
	r.balance(chains, chain, p, external)
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

// fixed renders the chains that do not depend on services.
func fixed(mark string, localhost bool) (nat, filter map[string][]string) {
	nat = map[string][]string{
		chainPostrouting: {join(comment("kubernetes service traffic requiring SNAT"), "-m mark --mark", mark, "-j MASQUERADE")},
		chainMark:        {join("-j MARK --set-xmark", mark)},
	}
	filter = map[string][]string{
		chainFirewall: nil,
		// Where the machine forwards nothing by default, services work all the
		// same.
		chainForward: {
			join(comment("kubernetes forwarding rules"), "-m mark --mark", mark, "-j ACCEPT"),
			join(comment("kubernetes forwarding conntrack rule"), "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
		},
	}
	if localhost {
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
