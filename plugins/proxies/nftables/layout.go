package nftables

import (
	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Names of the chains that every table has: those of kube-proxy.
const (
	chainServices        = "services"
	chainFirewallCheck   = "firewall-check"
	chainServiceCheck    = "service-endpoints-check"
	chainNodePortCheck   = "nodeport-endpoints-check"
	chainClusterIPsCheck = "cluster-ips-check"
	chainMasquerading    = "masquerading"
	chainReject          = "reject-chain"
	chainLocalGuard      = "localnet-guard"
)

// hooked is a base chain: one that the kernel calls.
type hooked struct {
	name     string
	kind     nft.ChainType
	hook     *nft.ChainHook
	priority nft.ChainPriority
	jumps    []hookJump
}

// hookJump leads from a base chain to another, for new connections alone where that is said.
type hookJump struct {
	to  string
	new bool
}

const (
	beforeDNAT nft.ChainPriority = -110
	atDNAT     nft.ChainPriority = -100
	atFilter   nft.ChainPriority = 0
	atSNAT     nft.ChainPriority = 100
)

// hooks are the base chains. Source ranges are checked before addresses are rewritten, and
// what is left of traffic to services after it has no endpoint.
var hooks = []hooked{
	{"filter-prerouting-pre-dnat", nft.ChainTypeFilter, nft.ChainHookPrerouting, beforeDNAT, []hookJump{{chainFirewallCheck, true}}},
	{"filter-output-pre-dnat", nft.ChainTypeFilter, nft.ChainHookOutput, beforeDNAT, []hookJump{{chainFirewallCheck, true}}},
	{"filter-input", nft.ChainTypeFilter, nft.ChainHookInput, atFilter, []hookJump{{chainLocalGuard, false}, {chainNodePortCheck, true}, {chainServiceCheck, true}}},
	{"filter-forward", nft.ChainTypeFilter, nft.ChainHookForward, atFilter, []hookJump{{chainServiceCheck, true}, {chainClusterIPsCheck, true}}},
	{"filter-output", nft.ChainTypeFilter, nft.ChainHookOutput, atFilter, []hookJump{{chainServiceCheck, true}, {chainClusterIPsCheck, true}}},
	{"nat-prerouting", nft.ChainTypeNAT, nft.ChainHookPrerouting, atDNAT, []hookJump{{chainServices, false}}},
	{"nat-output", nft.ChainTypeNAT, nft.ChainHookOutput, atDNAT, []hookJump{{chainServices, false}}},
	{"nat-postrouting", nft.ChainTypeNAT, nft.ChainHookPostrouting, atSNAT, []hookJump{{chainMasquerading, false}}},
}

// fixed is a chain of the layout with its rules.
type fixed struct {
	name  string
	base  *hooked // nil where other chains jump to it
	rules []rule
}

// layout writes the chains that do not depend on services. Chains come before those that
// jump to them.
func (f *family) layout(s settings) []fixed {
	masqueradeServices := []rule(nil)
	switch {
	case s.masqueradeAll:
		masqueradeServices = []rule{does(one(f.loadAddress(f.daddr, 0), within(clusterIPs.String(), 0)), ask(s.mark))}
	case len(s.pods) > 0:
		// Somebody routes the cluster's range to this node; the answer must come back by it.
		r := f.sourceWithin(s.pods, true, ask(s.mark)...)
		r.exprs = append(one(f.loadAddress(f.daddr, 0), within(clusterIPs.String(), 0)), r.exprs...)
		masqueradeServices = []rule{r}
	}
	// On all addresses, or on some; 127.0.0.1 is this machine's in either case.
	served := one(f.loadAddress(f.daddr, 0), within(nodePortIPs.String(), 0))
	unserved := served
	if s.everyAddress {
		var elsewhere []expr.Any
		if !s.localhost || f == ipv6 {
			elsewhere = f.matches(f.daddr, f.localhost, true)
		}
		served = append(local(false), elsewhere...)
		unserved = elsewhere
	}
	clusterIPsRules := []rule{does(one(f.loadAddress(f.daddr, 0), within(clusterIPs.String(), 0), f.reject()))}
	for _, p := range s.services {
		clusterIPsRules = append(clusterIPsRules, does(f.matches(f.daddr, p, false), one(drop())))
	}
	out := []fixed{
		{name: chainReject, rules: []rule{does(one(f.reject()))}},
		{name: chainFirewallCheck, rules: []rule{does(f.loadFront(0), one(verdict(firewallIPs, 0)))}},
		{name: chainServiceCheck, rules: []rule{does(f.loadFront(0), one(verdict(noEndpointServices, 0)))}},
		{name: chainNodePortCheck, rules: []rule{does(unserved, loadNodePort(0), one(verdict(noEndpointNodePorts, 0)))}},
		{name: chainClusterIPsCheck, rules: clusterIPsRules},
		{name: chainLocalGuard, rules: f.localGuard(s)},
		{name: chainServices, rules: append(masqueradeServices,
			does(f.loadFront(0), one(verdict(serviceIPs, 0))),
			does(served, loadNodePort(0), one(verdict(serviceNodePorts, 0))))},
		{name: chainMasquerading, rules: []rule{
			// The mark goes first: a packet that an overlay wraps comes by again.
			does(asked(s.mark), changeMark(s.mark, 0), one(masquerade())),
			// A pod that reaches itself must see the node's address.
			does(connection(expr.CtKeySTATUS, natDestination, false),
				one(f.loadAddress(f.saddr, 0), f.loadAddress(f.daddr, f.words()), loadProtocol(2*f.words()), loadPort(2*f.words()+1),
					within(hairpinConnections.String(), 0), masquerade())),
		}},
	}
	for i := range hooks {
		h := &hooks[i]
		c := fixed{name: h.name, base: h}
		for _, j := range h.jumps {
			if j.new {
				c.rules = append(c.rules, does(stateNew(), one(jump(j.to))))
			} else {
				c.rules = append(c.rules, does(one(jump(j.to))))
			}
		}
		out = append(out, c)
	}
	return out
}

// localGuard closes 127.0.0.0/8 to the neighbours again, which node ports at 127.0.0.1 open
// (CVE-2020-8558): nothing but answers and what was sent to a node port passes.
func (f *family) localGuard(s settings) []rule {
	if f == ipv6 || !s.localhost {
		return nil
	}
	return []rule{does(
		f.matches(f.daddr, f.localhost, false),
		f.matches(f.saddr, f.localhost, true),
		connection(expr.CtKeySTATE, expr.CtStateBitRELATED|expr.CtStateBitESTABLISHED, true),
		connection(expr.CtKeySTATUS, natDestination, true),
		one(drop()))}
}
