package layer2

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is what plans are made of.
type cluster struct {
	services []*corev1.Service
	nodes    []*corev1.Node
	slices   []*discoveryv1.EndpointSlice
}

// plan is what this node has to do.
type plan struct {
	hold    map[netip.Addr]*corev1.Service // what it answers for
	fellows map[netip.Addr]bool            // addresses of the other nodes on the link
	left    map[netip.Addr]leftOut         // what it had to answer for, and what a node has
	view    string                         // the candidates, and which of them are Ready
}

// leftOut is an address that a node's status says it has itself.
type leftOut struct {
	service *corev1.Service
	node    string
}

// addressesOn are the addresses of load balancers in a network, with their services. The
// first address of a network is no machine's, nor is the last one of IPv4. Where two services
// have one address, the older counts.
func addressesOn(network netip.Prefix, services []*corev1.Service) map[netip.Addr]*corev1.Service {
	found := map[netip.Addr]*corev1.Service{}
	for _, s := range services {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil {
			continue
		}
		for _, in := range s.Status.LoadBalancer.Ingress {
			ip, err := netip.ParseAddr(in.IP)
			if err != nil || in.IPMode != nil && *in.IPMode != corev1.LoadBalancerIPModeVIP {
				continue
			}
			ip = ip.Unmap()
			if !network.Contains(ip) || ip == network.Masked().Addr() || ip.Is4() && !network.Contains(ip.Next()) {
				continue
			}
			if other := found[ip]; other == nil || older(s, other) {
				found[ip] = s
			}
		}
	}
	return found
}

func older(a, b *corev1.Service) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID)) < 0
}

// local says whether only nodes with endpoints may have a service's addresses.
func local(s *corev1.Service) bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// planOf is the plan of a node on a network. A node that has no address there is no
// candidate, and neither is one that keeps out of load balancers by its label. Where no
// candidate is Ready all of them count: it is the control plane that fails then. An address
// that a node of the network says it has is left out. What other nodes say does not count:
// they could silence each load balancer. A machine that really has it answers a probe.
func planOf(self string, network netip.Prefix, c cluster) plan {
	p := plan{hold: map[netip.Addr]*corev1.Service{}, fellows: map[netip.Addr]bool{}, left: map[netip.Addr]leftOut{}}
	nodes := map[string]bool{} // candidates, and whether they are Ready
	taken := map[netip.Addr]string{}
	for _, n := range c.nodes {
		var own []netip.Addr
		here := false
		for _, a := range n.Status.Addresses {
			ip, err := netip.ParseAddr(a.Address)
			if err != nil {
				continue
			}
			ip = ip.Unmap()
			own = append(own, ip)
			if a.Type != corev1.NodeInternalIP || !network.Contains(ip) {
				continue
			}
			here = true
			if n.Name != self {
				p.fellows[ip] = true
			}
			if _, out := n.Labels[corev1.LabelNodeExcludeBalancers]; !out {
				nodes[n.Name] = isReady(n)
			}
		}
		for _, ip := range own {
			if other, has := taken[ip]; here && (!has || n.Name < other) {
				taken[ip] = n.Name
			}
		}
	}
	p.view = fmt.Sprint(nodes) // in the order of names
	endpoints := nodesWithEndpoints(c.slices)
	for ip, s := range addressesOn(network, c.services) {
		if holder(ip, candidates(nodes, s, endpoints)) != self {
			continue
		}
		if node, has := taken[ip]; has {
			p.left[ip] = leftOut{s, node}
		} else {
			p.hold[ip] = s
		}
	}
	return p
}

// candidates are the nodes that may have addresses of a service.
func candidates(nodes map[string]bool, s *corev1.Service, endpoints map[types.NamespacedName]placed) []string {
	may := func(string) bool { return true }
	if local(s) {
		here := endpoints[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]
		on := here.ready
		if len(on) == 0 {
			on = here.serving
		}
		may = func(node string) bool { return on[node] }
	}
	var ready, all []string
	for name, isReady := range nodes {
		if !may(name) {
			continue
		}
		if all = append(all, name); isReady {
			ready = append(ready, name)
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return all
}

// holder is the candidate with the highest hash of its name and the address: a node that
// comes or goes moves no address but its own.
func holder(ip netip.Addr, nodes []string) string {
	slices.Sort(nodes)
	best, most := "", uint64(0)
	for _, name := range nodes {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name + "\x00" + ip.String())) // never fails
		// The last bytes of FNV mix little; the multiplication spreads them.
		if sum := h.Sum64() * 0x9e3779b97f4a7c15; best == "" || sum > most {
			best, most = name, sum
		}
	}
	return best
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// placed are the nodes with endpoints of a service.
type placed struct{ ready, serving map[string]bool }

// nodesWithEndpoints are the nodes of each service's endpoints that are ready, and of those
// that still serve while they end.
func nodesWithEndpoints(list []*discoveryv1.EndpointSlice) map[types.NamespacedName]placed {
	found := map[types.NamespacedName]placed{}
	for _, slice := range list {
		name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		for _, e := range slice.Endpoints {
			if e.NodeName == nil {
				continue
			}
			p := found[name]
			if p.ready == nil {
				p = placed{ready: map[string]bool{}, serving: map[string]bool{}}
				found[name] = p
			}
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				p.ready[*e.NodeName] = true
			}
			if e.Conditions.Serving != nil && *e.Conditions.Serving {
				p.serving[*e.NodeName] = true
			}
		}
	}
	return found
}
