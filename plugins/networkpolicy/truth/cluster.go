package truth

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Names of namespaces and pods.
var Names = []string{"x", "y", "z"}

// Ranges are those of the node: pods z have addresses of another one.
var Ranges = []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}

// Bridge is that of the node's pods.
const Bridge = "pods"

// Address is that of a pod, such as x/y: 10.244.NODE.N or fd00:NODE::N.
func Address(pod string, family program.Family) netip.Addr {
	ns, name, _ := strings.Cut(pod, "/")
	node := 1
	if name == "z" {
		node = 2
	}
	host := 10*int(ns[0]-'w') + int(name[0]-'w')
	if family == program.IP6 {
		return netip.MustParseAddr(fmt.Sprintf("fd00:%d::%d", node, host))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.244.%d.%d", node, host))
}

// World is pods x, y and z of namespaces x, y and z, as upstream's tests have them; the
// port named serve differs from pod to pod. The policies are YAML, as Policy has them.
func World(policies ...string) *program.Cluster {
	c := &program.Cluster{Namespaces: map[string]map[string]string{}, Ranges: Ranges, Bridges: []string{Bridge}}
	for _, ns := range Names {
		c.Namespaces[ns] = map[string]string{"ns": ns, "kubernetes.io/metadata.name": ns}
		for i, name := range Names {
			c.Pods = append(c.Pods, &program.Pod{
				Namespace: ns, Name: name, Labels: map[string]string{"pod": name}, Local: name != "z",
				Addresses: []netip.Addr{Address(ns+"/"+name, program.IP4), Address(ns+"/"+name, program.IP6)},
				Ports:     []program.Port{{Name: "serve", Protocol: program.TCP, Number: uint16(80 + i)}, {Name: "serve", Protocol: program.UDP, Number: 81}, {Name: "wire", Protocol: program.SCTP, Number: 80}},
			})
		}
	}
	for _, text := range policies {
		c.Policies = append(c.Policies, Policy(text))
	}
	return c
}

// Policy is a policy of namespace x, named p, unless it says otherwise, with the API's
// defaults. It panics where the text is none.
func Policy(text string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "p"}}
	if err := yaml.UnmarshalStrict([]byte(text), p); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	if len(p.Spec.PolicyTypes) == 0 {
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	tcp := corev1.ProtocolTCP
	fill := func(list []networkingv1.NetworkPolicyPort) {
		for i := range list {
			if list[i].Protocol == nil {
				list[i].Protocol = &tcp
			}
		}
	}
	for i := range p.Spec.Ingress {
		fill(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		fill(p.Spec.Egress[i].Ports)
	}
	return p
}
