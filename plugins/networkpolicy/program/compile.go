package program

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Compile makes the program of a cluster. It is empty where there is no policy.
func Compile(c *Cluster) *Program {
	m := &compiler{
		program: &Program{Sets: map[string]*Set{}, Chains: map[string][]Rule{}}, directory: newDirectory(c),
		chosen: map[string]map[*Pod][]string{Egress: {}, Ingress: {}}, namespaces: map[string][]string{}, comments: map[string]string{},
	}
	policies := slices.Clone(c.Policies)
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	closed := map[string]bool{}
	for _, p := range policies {
		in, out := directions(p)
		closed[Ingress], closed[Egress] = closed[Ingress] || in, closed[Egress] || out
		m.policy(p, in, out)
	}
	if closed[Ingress] || closed[Egress] {
		m.base(closed)
	}
	return m.program
}

// Closed is the program of a node that knows nothing of the cluster yet: no connection to
// or from a pod is let pass.
func Closed(ranges []netip.Prefix, bridges []string) *Program {
	m := &compiler{program: &Program{Sets: map[string]*Set{}, Chains: map[string][]Rule{}}, directory: newDirectory(&Cluster{Ranges: ranges, Bridges: bridges})}
	m.base(map[string]bool{Egress: true, Ingress: true})
	return m.program
}

type compiler struct {
	*directory
	program *Program
	// chosen are the chains of the policies that select a pod, by direction.
	chosen map[string]map[*Pod][]string
	// namespaces are those that a selector matched.
	namespaces map[string][]string
	comments   map[string]string // of chains of policies
}

// directions says what a policy isolates. The API writes policyTypes; without it ingress
// is one, and egress where there are rules for it.
func directions(p *networkingv1.NetworkPolicy) (in, out bool) {
	if len(p.Spec.PolicyTypes) == 0 {
		return true, len(p.Spec.Egress) > 0
	}
	return slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress), slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// hash names what has no short name of its own.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:10])
}

// selector is a parsed one with a text that is the same for equal ones. One that cannot be
// parsed, which the API refuses, is nil.
type selector struct {
	labels.Selector
	text string
}

func parse(s *metav1.LabelSelector) selector {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return selector{text: "!"}
	}
	requirements, some := parsed.Requirements()
	if !some {
		return selector{text: "!"}
	}
	texts := make([]string, 0, len(requirements))
	for _, r := range requirements {
		texts = append(texts, r.String())
	}
	slices.Sort(texts)
	return selector{parsed, strings.Join(texts, ",")}
}

func (s selector) matches(set map[string]string) bool {
	return s.Selector != nil && s.Matches(labels.Set(set))
}

// policy compiles one policy, unless it selects no pod of this node.
func (m *compiler) policy(p *networkingv1.NetworkPolicy, in, out bool) {
	subject := parse(&p.Spec.PodSelector)
	var pods []*Pod
	for _, pod := range m.byNamespace[p.Namespace] {
		// A policy that cannot be read isolates every pod of its namespace.
		if pod.Local && (subject.Selector == nil || subject.matches(pod.Labels)) {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return
	}
	name := p.Namespace + "/" + p.Name
	add := func(direction string, rules []Rule) {
		chain := "policy-" + direction + "-" + hash(name)
		m.program.Chains[chain], m.comments[chain] = rules, name
		for _, pod := range pods {
			m.chosen[direction][pod] = append(m.chosen[direction][pod], chain)
		}
	}
	if in {
		rules := []Rule{}
		for _, r := range p.Spec.Ingress {
			ports := portsOf(r.Ports)
			named := ""
			if len(ports.named) > 0 {
				named = m.ownSockets(hash("own", p.Namespace, subject.text, ports.text()), pods, ports.named)
			}
			rules = append(rules, m.allowing(m.peers(p.Namespace, r.From), ports, named, Ingress)...)
		}
		add(Ingress, rules)
	}
	if out {
		rules := []Rule{}
		for _, r := range p.Spec.Egress {
			ports := portsOf(r.Ports)
			peers := m.peers(p.Namespace, r.To)
			named := ""
			if len(ports.named) > 0 {
				named = m.peerSockets(hash("peers", peers.text, ports.text()), peers, ports.named)
			}
			rules = append(rules, m.allowing(peers, ports, named, Egress)...)
		}
		add(Egress, rules)
	}
}

// allowing are the rules that let one rule of a policy pass.
func (m *compiler) allowing(from *peers, ports *ports, named, direction string) []Rule {
	var rules []Rule
	add := func(r Rule, set string) {
		if direction == Ingress {
			r.Source = set
		} else {
			r.Destination = set
		}
		r.Verdict = Accept
		rules = append(rules, r)
	}
	if named != "" {
		for _, family := range m.families {
			socket := Rule{Family: family, Socket: setName(named, family)}
			switch {
			case direction == Egress || from.all:
				// The sockets of a direction outwards are the peers' already.
				socket.Verdict = Accept
				rules = append(rules, socket)
			default:
				for _, set := range from.sets[family] {
					add(socket, set)
				}
			}
		}
	}
	for _, port := range ports.numbers {
		numbered := Rule{Protocol: port.protocol, Low: port.low, High: port.high}
		if from.all {
			numbered.Verdict = Accept
			rules = append(rules, numbered)
			continue
		}
		for _, family := range m.families {
			numbered.Family = family
			for _, set := range from.sets[family] {
				add(numbered, set)
			}
		}
	}
	return rules
}

func setName(name string, family Family) string { return fmt.Sprintf("%s-%d", name, family) }

// base makes the base chains, and what leads from them to the chains of policies.
func (m *compiler) base(closed map[string]bool) {
	for _, direction := range []string{Egress, Ingress} {
		rules := []Rule{{Match: Established, Verdict: Accept}, {Match: Neighbours, Family: IP6, Verdict: Accept}}
		if closed[direction] {
			rules = append(rules, m.link()...)
		}
		for _, family := range m.families {
			m.program.set(setName("itself", family), family, Pairs)
			m.program.set(setName("pods-"+direction, family), family, Chains)
			rules = append(rules,
				Rule{Family: family, Pair: setName("itself", family), Verdict: Accept},
				Rule{Family: family, Verdict: Look, Target: setName("pods-"+direction, family)})
		}
		if closed[direction] {
			for _, r := range m.cluster.Ranges {
				family := familyOf(r.Addr())
				m.program.set(setName("known", family), family, Addresses)
				rules = append(rules, Rule{Family: family, Within: r.Masked(), Unless: setName("known", family), Verdict: Drop})
			}
		}
		m.program.Chains[direction] = rules
	}
	for _, pod := range m.cluster.Pods {
		if !pod.Local {
			continue
		}
		in, out := m.group(pod, Ingress), m.group(pod, Egress)
		for _, a := range m.addresses(pod) {
			family := familyOf(a)
			m.program.set(setName("known", family), family, Addresses).Elements[key(a)] = ""
			if in+out != "" {
				m.program.Sets[setName("itself", family)].Elements[key(a)+key(a)] = ""
			}
			if in != "" {
				m.program.Sets[setName("pods-"+Ingress, family)].Elements[key(a)] = in
			}
			if out != "" {
				m.program.Sets[setName("pods-"+Egress, family)].Elements[key(a)] = out
			}
		}
	}
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
func (m *compiler) link() []Rule {
	var rules []Rule
	for _, bridge := range m.cluster.Bridges {
		for _, r := range beyond {
			r.Bridge, r.Verdict = bridge, Drop
			rules = append(rules, r)
		}
	}
	return rules
}

// group is the chain of all pods that the same policies select as this one; empty: none do.
func (m *compiler) group(pod *Pod, direction string) string {
	chains := m.chosen[direction][pod]
	if len(chains) == 0 {
		return ""
	}
	name := "pods-" + direction + "-" + hash(chains...)
	if _, made := m.program.Chains[name]; made {
		return name
	}
	var rules []Rule
	for _, chain := range chains {
		rules = append(rules, Rule{Verdict: Jump, Target: chain, Comment: m.comments[chain]})
	}
	m.program.Chains[name] = append(rules, Rule{Verdict: Drop})
	return name
}
