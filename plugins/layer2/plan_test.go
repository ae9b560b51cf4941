package layer2

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var lan = netip.MustParsePrefix("192.0.2.0/24")

func serviceOf(name string, ips ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	for _, ip := range ips {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func nodeOf(name, ip string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}, {Type: corev1.NodeHostName, Address: name}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
	}}
}

func sliceOf(service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}}, Endpoints: endpoints}
}

func endpointOn(node string, ready, serving bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving}}
}

// holders are the nodes that hold an address by their own plans: one at most, or a test fails.
func holders(c cluster, ip string) (names []string) {
	for _, n := range c.nodes {
		if planOf(n.Name, lan, c).hold[netip.MustParseAddr(ip)] != nil {
			names = append(names, n.Name)
		}
	}
	return names
}

// TestAddressesOn: what is announced is a load balancer's address of the network, of the
// older service where two have it.
func TestAddressesOn(t *testing.T) {
	proxied, mode := serviceOf("proxied", "192.0.2.20"), corev1.LoadBalancerIPModeProxy
	proxied.Status.LoadBalancer.Ingress[0].IPMode = &mode
	class, metal := "example.com/metal", serviceOf("metal", "192.0.2.21")
	metal.Spec.LoadBalancerClass = &class
	plain := serviceOf("plain", "192.0.2.22")
	plain.Spec.Type = corev1.ServiceTypeClusterIP
	younger := serviceOf("a-younger", "192.0.2.23")
	younger.CreationTimestamp = metav1.NewTime(time.Unix(1000, 0))
	older := serviceOf("older", "192.0.2.23", "::ffff:192.0.2.24", "10.97.0.1", "192.0.2.0", "192.0.2.255", "no address", "2001:db8::1")
	found := addressesOn(lan, []*corev1.Service{proxied, metal, plain, younger, older})
	want := []string{"192.0.2.23", "192.0.2.24"}
	var got []string
	for ip, s := range found {
		if got = append(got, ip.String()); s != older {
			t.Errorf("%s is %s's", ip, s.Name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("announced %v, want %v", got, want)
	}
}

// TestOneHolder: whichever nodes there are, one of those that may hold an address does, and
// each gets some. When one goes, only its addresses move.
func TestOneHolder(t *testing.T) {
	var c cluster
	for i := range 5 {
		c.nodes = append(c.nodes, nodeOf(fmt.Sprint("node-", i), fmt.Sprint("192.0.2.", i+1), corev1.ConditionTrue))
	}
	var ips []string
	for i := range 100 {
		ips = append(ips, fmt.Sprint("192.0.2.", 100+i))
		c.services = append(c.services, serviceOf(fmt.Sprint("s", i), ips[i]))
	}
	before, share := map[string]string{}, map[string]int{}
	for _, ip := range ips {
		names := holders(c, ip)
		if len(names) != 1 {
			t.Fatalf("%s is held by %v", ip, names)
		}
		before[ip] = names[0]
		share[names[0]]++
	}
	if len(share) != 5 || slices.Max(slices.Collect(maps.Values(share))) > 50 {
		t.Errorf("shares are %v", share)
	}
	c.nodes[2].Status.Conditions[0].Status = corev1.ConditionUnknown
	for _, ip := range ips {
		names := holders(c, ip)
		if len(names) != 1 || names[0] == "node-2" || before[ip] != "node-2" && names[0] != before[ip] {
			t.Errorf("%s, which %s held, is held by %v", ip, before[ip], names)
		}
	}
}

// claiming adds an address to those that a node's status says it has.
func claiming(n *corev1.Node, ip string) *corev1.Node {
	n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip})
	return n
}

// TestLeftOut: one node knows, of an address that a node has, why it is left out.
func TestLeftOut(t *testing.T) {
	const ip = "192.0.2.200"
	c := cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{
		nodeOf("a", "192.0.2.1", corev1.ConditionTrue), claiming(nodeOf("c", "192.0.2.3", corev1.ConditionTrue), ip), claiming(nodeOf("b", "192.0.2.2", corev1.ConditionTrue), ip),
	}}
	var got []leftOut
	for _, n := range c.nodes {
		for _, l := range planOf(n.Name, lan, c).left {
			got = append(got, l)
		}
	}
	if want := (leftOut{c.services[0], "b"}); !slices.Equal(got, []leftOut{want}) {
		t.Errorf("left out: %+v, want %+v", got, want)
	}
}

// TestCandidates: who may hold an address.
func TestCandidates(t *testing.T) {
	const ip = "192.0.2.200"
	out := nodeOf("b", "192.0.2.2", corev1.ConditionTrue)
	out.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
	localOne := serviceOf("s", ip)
	localOne.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	a, b := nodeOf("a", "192.0.2.1", corev1.ConditionTrue), nodeOf("b", "192.0.2.2", corev1.ConditionTrue)
	for name, c := range map[string]struct {
		cluster
		want []string
	}{
		"a node elsewhere":           {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, nodeOf("b", "198.51.100.2", corev1.ConditionTrue)}}, []string{"a"}},
		"a node that keeps out":      {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, out}}, []string{"a"}},
		"none ready":                 {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{nodeOf("a", "192.0.2.1", corev1.ConditionUnknown)}}, []string{"a"}},
		"local without endpoints":    {cluster{services: []*corev1.Service{localOne}, nodes: []*corev1.Node{a, b}}, nil},
		"local on a":                 {cluster{services: []*corev1.Service{localOne}, nodes: []*corev1.Node{a, b}, slices: []*discoveryv1.EndpointSlice{sliceOf("s", endpointOn("a", true, true), endpointOn("b", false, false))}}, []string{"a"}},
		"local on b":                 {cluster{services: []*corev1.Service{localOne}, nodes: []*corev1.Node{a, b}, slices: []*discoveryv1.EndpointSlice{sliceOf("s", endpointOn("b", true, true)), sliceOf("other", endpointOn("a", true, true))}}, []string{"b"}},
		"ready before one that ends": {cluster{services: []*corev1.Service{localOne}, nodes: []*corev1.Node{a, b}, slices: []*discoveryv1.EndpointSlice{sliceOf("s", endpointOn("a", false, true), endpointOn("b", true, true))}}, []string{"b"}},
		"one that ends":              {cluster{services: []*corev1.Service{localOne}, nodes: []*corev1.Node{a, b}, slices: []*discoveryv1.EndpointSlice{sliceOf("s", endpointOn("a", false, true))}}, []string{"a"}},
		"an address that a node elsewhere says it has": {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, claiming(nodeOf("b", "198.51.100.2", corev1.ConditionTrue), ip)}}, []string{"a"}},
		"an address that a node here has beside":       {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, claiming(nodeOf("b", "192.0.2.2", corev1.ConditionTrue), ip)}}, nil},
		"an address that a node has":                   {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, nodeOf("b", ip, corev1.ConditionTrue)}}, nil},
		"a node that claims many addresses":            {cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, nodeOf("", "192.0.2.9", corev1.ConditionFalse)}}, []string{"a"}},
		"endpoints of a node that is not on":           {cluster{services: []*corev1.Service{localOne}, nodes: []*corev1.Node{a}, slices: []*discoveryv1.EndpointSlice{sliceOf("s", endpointOn("z", true, true))}}, nil},
	} {
		if got := holders(c.cluster, ip); !slices.Equal(got, c.want) {
			t.Errorf("%s: held by %v, want %v", name, got, c.want)
		}
	}
	p := planOf("a", lan, cluster{services: []*corev1.Service{serviceOf("s", ip)}, nodes: []*corev1.Node{a, out}})
	if len(p.fellows) != 1 || !p.fellows[netip.MustParseAddr("192.0.2.2")] {
		t.Errorf("other nodes have %v", p.fellows)
	}
}
