package program

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// policy is a policy that was read. It is read once.
type policy struct {
	of      *networkingv1.NetworkPolicy
	name    string // with its namespace
	types   []string
	subject selector
	rules   map[string][]rule // by direction
	large   Limit             // it fits into no budget, and has no rules here

	pods    []int // of this node that it selects, as of version
	version int
	known   bool
}

// rule is one rule of a policy.
type rule struct {
	all     bool // no peer is named, which is everybody
	members []member
	text    string // the same for equal members; empty: none
	blocks  []addressRange
	ranges  [2]*namedSet // of blocks, by family; nil: none
	ports   *ports
}

// namedSet is a set whose name is of its content, so that it never changes.
type namedSet struct {
	name string
	set  *Set
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

// read parses a policy, unless one part of it alone is more than a budget has.
func read(p *networkingv1.NetworkPolicy, budget Budget) *policy {
	out := &policy{of: p, name: p.Namespace + "/" + p.Name, subject: parse(&p.Spec.PodSelector), rules: map[string][]rule{}}
	in, egress := directions(p)
	if egress {
		out.types = append(out.types, Egress)
	}
	if in {
		out.types = append(out.types, Ingress)
	}
	if out.large = tooLarge(p, budget); out.large != "" {
		return out
	}
	if in {
		for i := range p.Spec.Ingress {
			r := &p.Spec.Ingress[i]
			out.rules[Ingress] = append(out.rules[Ingress], readRule(p.Namespace, r.From, r.Ports))
		}
	}
	if egress {
		for i := range p.Spec.Egress {
			r := &p.Spec.Egress[i]
			out.rules[Egress] = append(out.rules[Egress], readRule(p.Namespace, r.To, r.Ports))
		}
	}
	return out
}

// tooLarge counts what is written, before any of it is looked at.
func tooLarge(p *networkingv1.NetworkPolicy, budget Budget) Limit {
	if p.Annotations[NotKept] != "" {
		return Memory
	}
	blocks, selectors, ports := 0, 0, 0
	peers := func(list []networkingv1.NetworkPolicyPeer) {
		for i := range list {
			if b := list[i].IPBlock; b != nil {
				blocks += 1 + len(b.Except)
			} else {
				selectors++
			}
		}
	}
	for i := range p.Spec.Ingress {
		peers(p.Spec.Ingress[i].From)
		ports += 1 + len(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		peers(p.Spec.Egress[i].To)
		ports += 1 + len(p.Spec.Egress[i].Ports)
	}
	switch {
	case ports > workFactor*budget.Rules:
		return Rules
	case selectors > workFactor*budget.Selectors: // some may be the same
		return Selectors
	case blocks > workFactor*budget.Elements:
		return Elements
	}
	return ""
}

func readRule(namespace string, list []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) rule {
	r := rule{ports: portsOf(ports), all: len(list) == 0}
	members := map[string]member{}
	for i := range list {
		peer := &list[i]
		if peer.IPBlock != nil {
			r.blocks = append(r.blocks, blockRanges(peer.IPBlock)...)
			continue
		}
		m := member{namespace: namespace, pods: selector{Selector: labels.Everything()}}
		if peer.PodSelector != nil {
			m.pods = parse(peer.PodSelector)
		}
		switch {
		case peer.NamespaceSelector != nil:
			m.across, m.namespace, m.of = true, "", parse(peer.NamespaceSelector)
			members["of "+m.of.text+" "+m.pods.text] = m
		case peer.PodSelector != nil:
			members["in "+namespace+" "+m.pods.text] = m
		} // a peer that names nothing, which the API refuses, matches no address
	}
	texts := make([]string, 0, len(members))
	for text := range members {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	for _, text := range texts {
		r.members = append(r.members, members[text])
	}
	if len(texts) > 0 {
		r.text = hash(texts...)
	}
	r.blocks = merged(r.blocks)
	r.makeRanges()
	return r
}

// makeRanges makes the sets of the ranges of a rule.
func (r *rule) makeRanges() {
	var of [2][]addressRange
	for _, b := range r.blocks {
		f := indexOf(familyOf(b.first))
		of[f] = append(of[f], b)
	}
	for f, list := range of {
		if len(list) == 0 {
			continue
		}
		set := &Set{Family: families[f], Kind: Ranges, Elements: make(map[string]string, len(list))}
		for _, b := range list {
			set.Elements[key(b.first)] = key(b.last)
		}
		r.ranges[f] = &namedSet{setName("blocks-"+hash(rangesText(list)), families[f]), set}
	}
}

// peersText says who a rule is about, the same for equal peers.
func (r *rule) peersText() string {
	if r.all {
		return "*"
	}
	return r.text + "\x00" + rangesText(r.blocks)
}
