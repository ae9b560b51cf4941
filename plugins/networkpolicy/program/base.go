package program

import (
	"fmt"
	"net/netip"
)

func setName(name string, family Family) string { return fmt.Sprintf("%s-%d", name, family) }

// base makes the base chains, and the sets that they ask.
func base(p *Program, c *Cluster, families []Family, closed map[string]bool) {
	for _, direction := range []string{Egress, Ingress} {
		rules := []Rule{{Match: Established, Verdict: Accept}, {Match: Neighbours, Family: IP6, Verdict: Accept}}
		if closed[direction] {
			rules = append(rules, link(c.Bridges)...)
		}
		for _, family := range families {
			p.set(setName("itself", family), family, Pairs)
			p.set(setName("pods-"+direction, family), family, Chains)
			rules = append(rules,
				Rule{Family: family, Pair: setName("itself", family), Verdict: Accept},
				Rule{Family: family, Verdict: Look, Target: setName("pods-"+direction, family)})
		}
		if closed[direction] {
			for _, r := range c.Ranges {
				family := familyOf(r.Addr())
				p.set(setName("known", family), family, Addresses)
				rules = append(rules, Rule{Family: family, Within: r.Masked(), Unless: setName("known", family), Verdict: Drop})
			}
		}
		p.Chains[direction] = rules
	}
}

// Shut is this program with base chains that let no new connection of pods pass, in the
// directions in which it isolates any. It has no other chain, and no set.
func (p *Program) Shut() *Program {
	out := &Program{Sets: map[string]*Set{}, Chains: map[string][]Rule{}}
	for _, name := range []string{Egress, Ingress} {
		rules := []Rule{}
		for _, r := range p.Chains[name] {
			if r.Verdict == Look || r.Pair != "" {
				continue
			}
			r.Unless = "" // whoever it is
			rules = append(rules, r)
		}
		out.Chains[name] = rules
	}
	return out
}

// beyond are the destinations that no policy can name, by family: groups and all of a link.
var beyond = []Rule{
	{Family: IP4, To: netip.MustParsePrefix("224.0.0.0/4")},
	{Family: IP4, To: netip.MustParsePrefix("255.255.255.255/32")},
	{Family: IP6, From: netip.MustParsePrefix("fe80::/10")},
	{Family: IP6, To: netip.MustParsePrefix("fe80::/10")},
	{Family: IP6, To: netip.MustParsePrefix("ff00::/8")},
}

// link drops what pods of one bridge send each other by addresses that are no pod's in the
// API. The kernel gives each pod one of fe80::/10, also in a cluster of IPv4 alone.
func link(bridges []string) []Rule {
	var rules []Rule
	for _, bridge := range bridges {
		for _, r := range beyond {
			r.Bridge, r.Verdict = bridge, Drop
			rules = append(rules, r)
		}
	}
	return rules
}
