package program

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// peers are those of one rule of a policy.
type peers struct {
	all    bool
	text   string // the same for equal peers
	sets   map[Family][]string
	pods   []*Pod         // whom the selectors match
	blocks []addressRange // of all ipBlocks
}

// peers finds those of one rule, and makes their sets. No peer is everybody.
func (m *compiler) peers(namespace string, list []networkingv1.NetworkPolicyPeer) *peers {
	p := &peers{sets: map[Family][]string{}}
	if len(list) == 0 {
		p.all, p.text = true, "*"
		return p
	}
	var selectors []string
	seen := map[*Pod]bool{}
	match := func(pods []*Pod, of selector) {
		for _, pod := range pods {
			if !seen[pod] && of.matches(pod.Labels) {
				seen[pod] = true
				p.pods = append(p.pods, pod)
			}
		}
	}
	for i := range list {
		peer := &list[i]
		if peer.IPBlock != nil {
			p.blocks = append(p.blocks, blockRanges(peer.IPBlock)...)
			continue
		}
		pods := selector{labelsEverything, ""}
		if peer.PodSelector != nil {
			pods = parse(peer.PodSelector)
		}
		if peer.NamespaceSelector == nil {
			if peer.PodSelector == nil {
				continue // a peer that names nothing, which the API refuses, is nobody
			}
			text := "in " + namespace + " " + pods.text
			if !slices.Contains(selectors, text) {
				selectors = append(selectors, text)
				match(m.byNamespace[namespace], pods)
			}
			continue
		}
		of := parse(peer.NamespaceSelector)
		text := "of " + of.text + " " + pods.text
		if !slices.Contains(selectors, text) {
			selectors = append(selectors, text)
			for _, ns := range m.matching(of) {
				match(m.byNamespace[ns], pods)
			}
		}
	}
	slices.Sort(selectors)
	p.blocks = merged(p.blocks)
	p.text = strings.Join(selectors, "\x00") + "\x00" + rangesText(p.blocks)
	if len(selectors) > 0 {
		m.selected(p, "peers-"+hash(selectors...))
	}
	m.ranges(p, "blocks-"+hash(rangesText(p.blocks)))
	return p
}

// matching are the namespaces that a selector matches.
func (m *compiler) matching(of selector) []string {
	list, known := m.namespaces[of.text]
	if !known {
		for name, labels := range m.cluster.Namespaces {
			if of.matches(labels) {
				list = append(list, name)
			}
		}
		slices.Sort(list)
		m.namespaces[of.text] = list
	}
	return list
}

// selected makes the sets of the pods that selectors match.
func (m *compiler) selected(p *peers, name string) {
	for _, family := range m.families {
		set := setName(name, family)
		p.sets[family] = append(p.sets[family], set)
		if m.program.Sets[set] != nil {
			continue // of another rule with the same peers
		}
		elements := m.program.set(set, family, Addresses).Elements
		for _, pod := range p.pods {
			for _, a := range m.addresses(pod) {
				if familyOf(a) == family {
					elements[key(a)] = ""
				}
			}
		}
	}
}

// ranges makes the sets of the ranges of a rule. Their names are of their content, so that
// no set of ranges ever changes.
func (m *compiler) ranges(p *peers, name string) {
	for _, r := range p.blocks {
		family := familyOf(r.first)
		if !slices.Contains(m.families, family) {
			continue // no pod has such an address
		}
		set := setName(name, family)
		if !slices.Contains(p.sets[family], set) {
			p.sets[family] = append(p.sets[family], set)
		}
		m.program.set(set, family, Ranges).Elements[key(r.first)] = key(r.last)
	}
}

// ownSockets makes the sets of a rule's named ports for the pods that a policy selects.
func (m *compiler) ownSockets(name string, pods []*Pod, named []namedPort) string {
	m.sockets(name, pods, named, func(netip.Addr) bool { return true })
	return name
}

// peerSockets makes the sets of a rule's named ports for its peers. A name is one of a pod,
// so an address that is in a range counts where it is a pod's.
func (m *compiler) peerSockets(name string, p *peers, named []namedPort) string {
	if p.all {
		m.sockets(name, m.cluster.Pods, named, func(netip.Addr) bool { return true })
		return name
	}
	m.sockets(name, p.pods, named, func(netip.Addr) bool { return true })
	if len(p.blocks) > 0 {
		m.sockets(name, m.cluster.Pods, named, func(a netip.Addr) bool { return holds(p.blocks, a) })
	}
	return name
}

func (m *compiler) sockets(name string, pods []*Pod, named []namedPort, in func(netip.Addr) bool) {
	for _, family := range m.families {
		m.program.set(setName(name, family), family, Sockets)
	}
	for _, pod := range pods {
		for _, port := range pod.Ports {
			if !slices.Contains(named, namedPort{port.Name, port.Protocol}) {
				continue
			}
			for _, a := range m.addresses(pod) {
				if in(a) {
					m.program.Sets[setName(name, familyOf(a))].Elements[socketKey(a, port.Protocol, port.Number)] = ""
				}
			}
		}
	}
}
