package truth

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Chance makes policies out of a few words, so that they meet.
type Chance struct{ *rand.Rand }

// One is one of some words.
func (r Chance) One(of ...string) string { return of[r.IntN(len(of))] }

func (r Chance) selector(key string) *metav1.LabelSelector {
	switch r.IntN(5) {
	case 0:
		return &metav1.LabelSelector{}
	case 1:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{r.One("x", "y", "z")}}}}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{r.One("x", "y", "z"), r.One("x", "q")}}}}
	case 3:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: r.One(key, "absent"), Operator: metav1.LabelSelectorOpExists}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: r.One("x", "y", "z")}}
}

func (r Chance) peers() (list []networkingv1.NetworkPolicyPeer) {
	for range r.IntN(4) {
		var p networkingv1.NetworkPolicyPeer
		switch r.IntN(4) {
		case 0:
			p.PodSelector = r.selector("pod")
		case 1:
			p.NamespaceSelector = r.selector("ns")
		case 2:
			p.PodSelector, p.NamespaceSelector = r.selector("pod"), r.selector("ns")
		case 3:
			if r.IntN(2) == 0 {
				p.IPBlock = &networkingv1.IPBlock{CIDR: r.One("10.244.0.0/16", "10.244.1.0/24", "0.0.0.0/0", "10.244.1.8/29"), Except: nil}
				for range r.IntN(3) {
					p.IPBlock.Except = append(p.IPBlock.Except, r.One("10.244.1.8/29", "10.244.1.11/32", "10.244.2.0/28", "10.244.1.12/30"))
				}
			} else {
				p.IPBlock = &networkingv1.IPBlock{CIDR: r.One("fd00:1::/64", "::/0", "fd00::/16")}
				for range r.IntN(2) {
					p.IPBlock.Except = append(p.IPBlock.Except, r.One("fd00:1::10/124", "fd00:2::/64"))
				}
			}
		}
		list = append(list, p)
	}
	return list
}

func (r Chance) ports() (list []networkingv1.NetworkPolicyPort) {
	for range r.IntN(4) {
		p := networkingv1.NetworkPolicyPort{Protocol: ptr.To(corev1.Protocol(r.One("TCP", "UDP", "SCTP")))}
		switch r.IntN(4) {
		case 0:
		case 1:
			p.Port = ptr.To(intstr.FromString(r.One("serve", "wire", "absent")))
		case 2:
			p.Port = ptr.To(intstr.FromInt32(80 + r.Int32N(3)))
		case 3:
			p.Port, p.EndPort = ptr.To(intstr.FromInt32(79+r.Int32N(3))), ptr.To(81+r.Int32N(3))
		}
		list = append(list, p)
	}
	return list
}

// Policy makes the i-th policy.
func (r Chance) Policy(i int) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: r.One("x", "y", "z"), Name: fmt.Sprint("p", i)}}
	p.Spec.PodSelector = *r.selector("pod")
	p.Spec.PolicyTypes = [][]networkingv1.PolicyType{{"Ingress"}, {"Egress"}, {"Ingress", "Egress"}}[r.IntN(3)]
	for range r.IntN(3) {
		p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: r.peers(), Ports: r.ports()})
	}
	for range r.IntN(3) {
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: r.peers(), Ports: r.ports()})
	}
	return p
}

// Large is a cluster of many policies and pods, of which some pods are of this node.
func Large(policies, pods, local int) *program.Cluster {
	c := &program.Cluster{Namespaces: map[string]map[string]string{}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	for i := range pods {
		ns := fmt.Sprint("ns", i%50)
		c.Namespaces[ns] = map[string]string{"ns": ns}
		c.Pods = append(c.Pods, &program.Pod{Namespace: ns, Name: fmt.Sprint("p", i), Local: i < local, Labels: map[string]string{"app": fmt.Sprint("a", i%20)},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, byte(i >> 8), byte(i)})}, Ports: []program.Port{{Name: "http", Protocol: program.TCP, Number: 8080}}})
	}
	for i := range policies {
		c.Policies = append(c.Policies, Policy(fmt.Sprintf(`
metadata: {namespace: ns%d, name: p%d}
spec: {podSelector: {matchLabels: {app: a%d}}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {matchLabels: {app: a%d}}}, {namespaceSelector: {matchLabels: {ns: ns%d}}}], ports: [{port: 80}, {port: http}]}], egress: [{to: [{ipBlock: {cidr: 10.%d.0.0/16}}]}]}`,
			i%50, i, i%20, i%7, i%50, i%200)))
	}
	return c
}
