package truth

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Packet is the first of a connection.
type Packet struct {
	Source, Destination netip.Addr
	Protocol            uint8
	Port                uint16
	// Bridge carries the packet from one of its ports to another; empty: none does.
	Bridge string
}

// Allowed is what the API's documentation says of a connection, policy by policy and in
// the words of its fields. It shares no code with program.Compile.
func Allowed(c *program.Cluster, k Packet) bool {
	from, to := podAt(c, k.Source), podAt(c, k.Destination)
	if from != nil && from == to && k.Source == k.Destination {
		return true // a pod cannot block itself
	}
	number := map[uint8]corev1.Protocol{6: corev1.ProtocolTCP, 17: corev1.ProtocolUDP, 132: corev1.ProtocolSCTP}[k.Protocol]
	ports := func(list []networkingv1.NetworkPolicyPort) bool {
		if len(list) == 0 {
			return true
		}
		for _, p := range list {
			if p.Protocol == nil || *p.Protocol != number {
				continue
			}
			if p.Port == nil {
				return true
			}
			if p.Port.Type == intstr.String {
				if to != nil && slices.Contains(to.Ports, program.Port{Name: p.Port.StrVal, Protocol: k.Protocol, Number: k.Port}) {
					return true
				}
				continue
			}
			end := p.Port.IntVal
			if p.EndPort != nil {
				end = *p.EndPort
			}
			if int32(k.Port) >= p.Port.IntVal && int32(k.Port) <= end {
				return true
			}
		}
		return false
	}
	matches := func(s *metav1.LabelSelector, of map[string]string) bool {
		parsed, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && parsed.Matches(labels.Set(of))
	}
	peers := func(list []networkingv1.NetworkPolicyPeer, namespace string, pod *program.Pod, address netip.Addr) bool {
		if len(list) == 0 {
			return true
		}
		for _, p := range list {
			switch {
			case p.IPBlock != nil:
				in := netip.MustParsePrefix(p.IPBlock.CIDR).Contains(address)
				for _, e := range p.IPBlock.Except {
					in = in && !netip.MustParsePrefix(e).Contains(address)
				}
				if in {
					return true
				}
			case pod == nil:
			case p.NamespaceSelector == nil:
				if pod.Namespace == namespace && matches(p.PodSelector, pod.Labels) {
					return true
				}
			case matches(p.NamespaceSelector, c.Namespaces[pod.Namespace]) && (p.PodSelector == nil || matches(p.PodSelector, pod.Labels)):
				return true
			}
		}
		return false
	}
	isolatedIn, in, isolatedOut, out := false, false, false, false
	for _, p := range c.Policies {
		if to != nil && to.Local && to.Namespace == p.Namespace && matches(&p.Spec.PodSelector, to.Labels) && slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) {
			isolatedIn = true
			for _, r := range p.Spec.Ingress {
				in = in || ports(r.Ports) && peers(r.From, p.Namespace, from, k.Source)
			}
		}
		if from != nil && from.Local && from.Namespace == p.Namespace && matches(&p.Spec.PodSelector, from.Labels) && slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			isolatedOut = true
			for _, r := range p.Spec.Egress {
				out = out || ports(r.Ports) && peers(r.To, p.Namespace, to, k.Destination)
			}
		}
	}
	// A pod of this node that is not known yet is isolated where there is any policy.
	closed := func(a netip.Addr, pod *program.Pod, of networkingv1.PolicyType) bool {
		if pod != nil && pod.Local || !slices.ContainsFunc(c.Ranges, func(r netip.Prefix) bool { return r.Contains(a) }) {
			return false
		}
		return slices.ContainsFunc(c.Policies, func(p *networkingv1.NetworkPolicy) bool { return slices.Contains(p.Spec.PolicyTypes, of) })
	}
	// By an address of the link a pod reaches no other while there is any policy.
	link := k.Source.IsLinkLocalUnicast() && k.Source.Is6() || k.Destination.IsLinkLocalUnicast() && k.Destination.Is6() || k.Destination.IsMulticast() || k.Destination == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if link && slices.Contains(c.Bridges, k.Bridge) && len(c.Policies) > 0 {
		return false
	}
	return (!isolatedIn || in) && (!isolatedOut || out) &&
		!closed(k.Destination, to, networkingv1.PolicyTypeIngress) && !closed(k.Source, from, networkingv1.PolicyTypeEgress)
}

func podAt(c *program.Cluster, a netip.Addr) *program.Pod {
	for _, p := range c.Pods {
		if slices.Contains(p.Addresses, a) {
			return p
		}
	}
	return nil
}
