package program_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
)

// ask is "x/x y/y TCP 80": a connection between pods, or from and to an address.
func ask(t *testing.T, text string, family program.Family) truth.Packet {
	t.Helper()
	words := strings.Fields(text)
	at := func(word string) netip.Addr {
		if strings.Contains(word, "/") {
			return truth.Address(word, family)
		}
		return netip.MustParseAddr(word)
	}
	k := truth.Packet{Source: at(words[0]), Destination: at(words[1])}
	k.Protocol, _ = program.Protocol(corev1.Protocol(words[2]))
	if _, err := fmt.Sscan(words[3], &k.Port); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestPolicies: what each form of a policy allows (requirements 21.14 to 21.20).
func TestPolicies(t *testing.T) {
	tests := []struct {
		name, policy string
		yes, no      []string
	}{
		{"none", "", []string{"x/x y/y TCP 80", "192.0.2.1 x/x TCP 80", "10.244.1.200 x/x TCP 80"}, nil},
		{"nobody in", "spec: {podSelector: {}}",
			[]string{"x/x y/x TCP 80", "x/x x/x TCP 80", "x/x 192.0.2.1 TCP 80", "y/x x/z TCP 80"},
			[]string{"y/x x/x TCP 80", "x/x x/y UDP 81", "192.0.2.1 x/x TCP 80", "y/x x/y SCTP 80"}},
		{"nobody out", "spec: {podSelector: {}, policyTypes: [Egress]}",
			[]string{"y/x x/x TCP 80", "x/y x/y TCP 80"}, []string{"x/x y/x TCP 80", "x/x x/y TCP 80", "x/x 192.0.2.1 UDP 53"}},
		{"one pod", "spec: {podSelector: {matchLabels: {pod: x}}}", []string{"y/x x/y TCP 80"}, []string{"y/x x/x TCP 80"}},
		{"everybody in", "spec: {podSelector: {}, ingress: [{}]}", []string{"y/x x/x TCP 80", "192.0.2.1 x/x SCTP 7"}, nil},
		{"everybody out", "spec: {podSelector: {}, policyTypes: [Egress], egress: [{}]}", []string{"x/x y/x TCP 80"}, nil},
		{"egress without types", "spec: {podSelector: {}, egress: [{ports: [{protocol: UDP, port: 53}]}]}",
			[]string{"x/x 192.0.2.1 UDP 53"}, []string{"x/x 192.0.2.1 TCP 53", "y/x x/x TCP 80"}},
		{"pods of one's own namespace", "spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: 'y'}}}]}]}",
			[]string{"x/y x/x TCP 80"}, []string{"y/y x/x TCP 80", "x/z x/x TCP 80", "192.0.2.1 x/x TCP 80"}},
		{"namespaces", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}]}]}",
			[]string{"y/x x/x TCP 80", "y/z x/x TCP 80"}, []string{"x/y x/x TCP 80", "z/x x/x TCP 80"}},
		{"namespaces and pods", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, podSelector: {matchLabels: {pod: z}}}]}]}",
			[]string{"y/z x/x TCP 80"}, []string{"y/x x/x TCP 80", "x/z x/x TCP 80"}},
		{"namespaces or pods", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}, {podSelector: {matchLabels: {pod: z}}}]}]}",
			[]string{"y/x x/x TCP 80", "x/z x/x TCP 80"}, []string{"z/z x/x TCP 80", "x/y x/x TCP 80"}},
		{"expressions", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: ['y']}]}}]}]}",
			[]string{"x/y x/x TCP 80", "z/x x/x TCP 80"}, []string{"y/x x/x TCP 80"}},
		{"every namespace", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}",
			[]string{"z/z x/x TCP 80", "x/y x/x UDP 9"}, []string{"192.0.2.1 x/x TCP 80"}},
		{"the namespace's own name", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: z}}}]}]}",
			[]string{"z/x x/x TCP 80"}, []string{"y/x x/x TCP 80"}},
		{"a port", "spec: {podSelector: {}, ingress: [{ports: [{port: 81}]}]}", []string{"y/x x/x TCP 81"}, []string{"y/x x/x TCP 80", "y/x x/x UDP 81"}},
		{"a protocol", "spec: {podSelector: {}, ingress: [{ports: [{protocol: UDP}]}]}", []string{"y/x x/x UDP 7"}, []string{"y/x x/x TCP 80", "y/x x/x SCTP 7"}},
		{"SCTP is not TCP", "spec: {podSelector: {}, ingress: [{ports: [{protocol: SCTP, port: 80}]}]}", []string{"y/x x/x SCTP 80"}, []string{"y/x x/x TCP 80"}},
		{"a range", "spec: {podSelector: {}, ingress: [{ports: [{port: 32000, endPort: 32768}]}]}",
			[]string{"y/x x/x TCP 32000", "y/x x/x TCP 32768"}, []string{"y/x x/x TCP 31999", "y/x x/x TCP 32769"}},
		{"ranges that meet", "spec: {podSelector: {}, ingress: [{ports: [{port: 10, endPort: 20}, {port: 15, endPort: 30}, {port: 31}, {port: 65535}]}]}",
			[]string{"y/x x/x TCP 10", "y/x x/x TCP 31", "y/x x/x TCP 65535"}, []string{"y/x x/x TCP 32", "y/x x/x TCP 9"}},
		{"a name in", "spec: {podSelector: {}, ingress: [{ports: [{port: serve}]}]}",
			[]string{"y/x x/x TCP 80", "y/x x/y TCP 81"}, []string{"y/x x/x TCP 81", "y/x x/y TCP 80", "y/x x/x UDP 81"}},
		{"a name in, of peers", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}], ports: [{port: serve, protocol: UDP}]}]}",
			[]string{"y/x x/x UDP 81"}, []string{"z/x x/x UDP 81", "y/x x/x TCP 80"}},
		{"a name out", "spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}}], ports: [{port: serve}]}]}",
			[]string{"x/x y/x TCP 80", "x/x y/y TCP 81", "x/x y/z TCP 82"}, []string{"x/x y/x TCP 81", "x/x z/x TCP 80", "x/x 192.0.2.1 TCP 80"}},
		{"a name out to everybody", "spec: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: wire, protocol: SCTP}]}]}",
			[]string{"x/x z/z SCTP 80"}, []string{"x/x 192.0.2.1 SCTP 80", "x/x z/z SCTP 81"}},
		{"a name that nobody has", "spec: {podSelector: {}, ingress: [{ports: [{port: absent}]}]}", nil, []string{"y/x x/x TCP 80"}},
	}
	for _, tc := range tests {
		for _, family := range []program.Family{program.IP4, program.IP6} {
			c := truth.World()
			if tc.policy != "" {
				c = truth.World(tc.policy)
			}
			check(t, fmt.Sprintf("%s, IPv%d", tc.name, family), c, family, tc.yes, tc.no)
		}
	}
}

// check asks the program and the reference.
func check(t *testing.T, name string, c *program.Cluster, family program.Family, yes, no []string) {
	t.Helper()
	p := program.Compile(c)
	for want, list := range map[bool][]string{true: yes, false: no} {
		for _, text := range list {
			if family == program.IP6 {
				text = strings.ReplaceAll(strings.ReplaceAll(text, "192.0.2.", "2001:db8::"), "10.244.1.", "fd00:1::")
			}
			k := ask(t, text, family)
			if got := truth.Passes(t, p, k); got != want {
				t.Errorf("%s: %s passes: %t, want %t", name, text, got, want)
			}
			if got := truth.Allowed(c, k); got != want {
				t.Errorf("%s: the reference says of %s: %t, want %t", name, text, got, want)
			}
		}
	}
}

// TestBlocks: ipBlocks, with exceptions that are inside, that meet, and that leave nothing.
func TestBlocks(t *testing.T) {
	in := func(blocks string) *program.Cluster {
		return truth.World("spec: {podSelector: {}, ingress: [{from: [" + blocks + "]}]}")
	}
	tests := []struct {
		blocks  string
		yes, no []string
	}{
		{"{ipBlock: {cidr: 172.17.0.0/16, except: [172.17.1.0/24]}}", // requirement 21.19
			[]string{"172.17.0.255", "172.17.2.0", "172.17.255.255"}, []string{"172.17.1.0", "172.17.1.255", "172.18.0.0", "172.16.255.255"}},
		{"{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.0/25, 10.0.0.64/26]}}", []string{"10.0.0.128"}, []string{"10.0.0.0", "10.0.0.127"}},
		{"{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.0/25, 10.0.0.128/25]}}", nil, []string{"10.0.0.0", "10.0.0.200"}},
		{"{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.7/32]}}, {ipBlock: {cidr: 10.0.0.7/32}}", []string{"10.0.0.7", "10.0.0.8"}, nil},
		{"{ipBlock: {cidr: 0.0.0.0/0}}", []string{"0.0.0.0", "255.255.255.255", "10.244.1.12"}, nil},
		{"{ipBlock: {cidr: 0.0.0.0/0, except: [255.0.0.0/8, 0.0.0.0/8]}}", []string{"1.0.0.0", "254.255.255.255"}, []string{"0.0.0.1", "255.255.255.255"}},
		{"{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.1.0/24]}}", []string{"10.244.2.13"}, []string{"10.244.1.12"}},
		{"{ipBlock: {cidr: 0.0.0.0/1}}, {ipBlock: {cidr: 128.0.0.0/1}}", []string{"127.255.255.255", "128.0.0.0"}, nil},
		{"{ipBlock: {cidr: '2001:db8::/32', except: ['2001:db8:1::/48']}}", []string{"2001:db8::1", "2001:db8:2::"}, []string{"2001:db8:1::1", "2001:db9::", "10.0.0.1"}},
		{"{ipBlock: {cidr: '::/0'}}", []string{"::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}, []string{"10.0.0.1"}},
	}
	for _, tc := range tests {
		c := in(tc.blocks)
		p := program.Compile(c)
		for want, list := range map[bool][]string{true: tc.yes, false: tc.no} {
			for _, text := range list {
				source := netip.MustParseAddr(text)
				family := program.IP6
				if source.Is4() {
					family = program.IP4
				}
				k := truth.Packet{Source: source, Destination: truth.Address("x/x", family), Protocol: program.TCP, Port: 80}
				if got := truth.Passes(t, p, k); got != want {
					t.Errorf("%s: from %s passes: %t, want %t", tc.blocks, text, got, want)
				}
				if got := truth.Allowed(c, k); got != want {
					t.Errorf("%s: the reference says of %s: %t, want %t", tc.blocks, text, got, want)
				}
			}
		}
		for name, set := range p.Sets {
			if set.Kind == program.Ranges && !disjoint(set) {
				t.Errorf("%s: ranges of %s meet", tc.blocks, name)
			}
		}
	}
}

func disjoint(set *program.Set) bool {
	before := ""
	for i, first := range slices.Sorted(maps.Keys(set.Elements)) {
		if i > 0 && first <= before || set.Elements[first] < first {
			return false
		}
		before = set.Elements[first]
	}
	return true
}

// TestPoliciesOfOthers: a policy counts for pods of its own namespace alone, whatever its
// selectors say, and rights of several policies add up.
func TestPoliciesOfOthers(t *testing.T) {
	c := truth.World("metadata: {namespace: 'y'}\nspec: {podSelector: {}, policyTypes: [Ingress, Egress]}")
	check(t, "of namespace y", c, program.IP4, []string{"x/x z/x TCP 80", "192.0.2.1 x/x TCP 80"}, []string{"x/x y/x TCP 80", "y/x x/x TCP 80"})
	c = truth.World("metadata: {name: a}\nspec: {podSelector: {}}", "metadata: {name: b}\nspec: {podSelector: {matchLabels: {pod: x}}, ingress: [{ports: [{port: 80}]}]}",
		"metadata: {name: c}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: 'y'}}}]}]}")
	check(t, "of three policies", c, program.IP4, []string{"y/x x/x TCP 80", "x/y x/x TCP 81"}, []string{"y/x x/x TCP 81", "y/x x/y TCP 80"})
	// Both ends have to allow a connection.
	c = truth.World("metadata: {name: out}\nspec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}}]}]}",
		"metadata: {name: in, namespace: 'y'}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}")
	check(t, "of both ends", c, program.IP4, []string{"x/x y/z TCP 80"}, []string{"x/x y/x TCP 80", "x/x z/x TCP 80"})
}

// TestAddressOfTwo: an address that two pods claim is that of the later one; the rights of
// the other belong to no pod.
func TestAddressOfTwo(t *testing.T) {
	c := truth.World("metadata: {namespace: z}\nspec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}]}]}")
	old := &program.Pod{Namespace: "y", Name: "old", Local: true, Labels: map[string]string{"pod": "x"}, Addresses: []netip.Addr{truth.Address("x/x", program.IP4)}}
	for _, p := range c.Pods {
		p.Created = time.Unix(2, 0)
	}
	c.Pods = append(c.Pods, old)
	if truth.Passes(t, program.Compile(c), ask(t, "x/x z/x TCP 80", program.IP4)) {
		t.Error("a pod has the rights of one that had its address before")
	}
	old.Created = time.Unix(3, 0)
	if !truth.Passes(t, program.Compile(c), ask(t, "x/x z/x TCP 80", program.IP4)) {
		t.Error("the later pod has not its own rights")
	}
}

// TestUnknownPods: while there is a policy, a pod of this node that is not known is closed,
// in the policy's direction; so is all of a node that knows nothing.
func TestUnknownPods(t *testing.T) {
	in := truth.World("spec: {podSelector: {matchLabels: {pod: x}}}")
	check(t, "ingress", in, program.IP4, []string{"10.244.1.200 y/x TCP 80", "10.244.2.200 y/x TCP 80", "x/x 10.244.2.200 TCP 80"}, []string{"y/x 10.244.1.200 TCP 80", "192.0.2.1 10.244.1.200 TCP 80"})
	out := truth.World("spec: {podSelector: {matchLabels: {pod: x}}, policyTypes: [Egress]}")
	check(t, "egress", out, program.IP6, []string{"y/x 10.244.1.200 TCP 80"}, []string{"10.244.1.200 y/x TCP 80"})
	nothing := program.Closed(in.Ranges, in.Bridges)
	for text, want := range map[string]bool{"x/x y/y TCP 80": false, "192.0.2.1 x/x UDP 80": false, "x/x 192.0.2.1 TCP 80": false, "192.0.2.1 192.0.2.2 TCP 80": true, "x/z 192.0.2.2 TCP 80": true} {
		if got := truth.Passes(t, nothing, ask(t, text, program.IP4)); got != want {
			t.Errorf("knowing nothing, %s passes: %t, want %t", text, got, want)
		}
	}
}

// TestLink: while there is a policy, no pod reaches another on its bridge by an address that
// the API does not have, though the cluster has IPv4 alone. Other bridges are left alone.
func TestLink(t *testing.T) {
	four := func(c *program.Cluster) *program.Cluster {
		c.Ranges = c.Ranges[:1]
		for _, p := range c.Pods {
			p.Addresses = p.Addresses[:1]
		}
		return c
	}
	programs := map[string]*program.Program{
		"in":     program.Compile(four(truth.World("spec: {podSelector: {}}"))),
		"out":    program.Compile(four(truth.World("spec: {podSelector: {}, policyTypes: [Egress]}"))),
		"both":   program.Compile(truth.World("spec: {podSelector: {}, policyTypes: [Ingress, Egress]}")),
		"closed": program.Closed(truth.Ranges[:1], []string{truth.Bridge}),
	}
	for _, tc := range []struct{ source, destination string }{
		{"fe80::1", "fe80::2"}, {"fe80::1", "ff02::1"}, {"fd00:1::11", "fe80::2"}, {"febf::1", "fd00:1::11"}, {"fd00:1::11", "ff05::1:3"},
		{"10.244.1.21", "255.255.255.255"}, {"10.244.1.21", "224.0.0.1"}, {"10.244.1.21", "239.255.255.250"},
	} {
		k := truth.Packet{Source: netip.MustParseAddr(tc.source), Destination: netip.MustParseAddr(tc.destination), Protocol: program.UDP, Port: 80, Bridge: truth.Bridge}
		if c := truth.World(); !truth.Passes(t, program.Compile(c), k) || !truth.Allowed(c, k) {
			t.Errorf("without a policy, %s does not reach %s", tc.source, tc.destination)
		}
		for name, p := range programs {
			if truth.Passes(t, p, k) {
				t.Errorf("%s: %s reaches %s", name, tc.source, tc.destination)
			}
			if p.Chains[program.Ingress][1].Match != program.Neighbours {
				t.Errorf("%s: what finds neighbours does not pass before: %+v", name, p.Chains[program.Ingress][:2])
			}
		}
		k.Bridge, k.Source = "docker0", netip.MustParseAddr("192.0.2.1")
		if k.Destination.Is6() {
			k.Source = netip.MustParseAddr("fe80::7")
		}
		if k.Destination.String() != "fd00:1::11" && !truth.Passes(t, programs["in"], k) {
			t.Errorf("on another bridge, %s does not reach %s", k.Source, k.Destination)
		}
	}
}

// TestUnreadable: what the API refuses allows no packet, and isolates each pod that may be meant.
func TestUnreadable(t *testing.T) {
	for _, text := range []string{
		"spec: {podSelector: {matchExpressions: [{key: a, operator: Near}]}}",
		"spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchExpressions: [{key: a, operator: Near}]}}]}]}",
		"spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: everywhere}}]}]}",
		"spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [everywhere]}}]}]}",
		"spec: {podSelector: {}, ingress: [{from: [{}]}]}",
		"spec: {podSelector: {}, ingress: [{ports: [{protocol: ICMP}]}]}",
		"spec: {podSelector: {}, ingress: [{ports: [{port: 0}]}]}",
		"spec: {podSelector: {}, ingress: [{ports: [{port: 90, endPort: 80}]}]}",
		"spec: {podSelector: {}, ingress: [{ports: [{port: 80, endPort: 65536}]}]}",
	} {
		if truth.Passes(t, program.Compile(truth.World(text)), ask(t, "y/x x/x TCP 80", program.IP4)) {
			t.Errorf("%s lets a connection pass", text)
		}
	}
}

// TestEqualClusters: the order of objects, and that of words in a selector, changes nothing.
func TestEqualClusters(t *testing.T) {
	texts := []string{
		"metadata: {name: a}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {a: b, c: d, e: f}}}, {ipBlock: {cidr: 10.0.0.0/8}}, {ipBlock: {cidr: 11.0.0.0/8}}]}]}",
		"metadata: {name: b}\nspec: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: serve}, {port: wire, protocol: SCTP}, {port: 9}, {port: 7}]}]}",
	}
	first := program.Compile(truth.World(texts...))
	for range 50 {
		c := truth.World(texts...)
		rand.Shuffle(len(c.Pods), func(i, j int) { c.Pods[i], c.Pods[j] = c.Pods[j], c.Pods[i] })
		rand.Shuffle(len(c.Policies), func(i, j int) { c.Policies[i], c.Policies[j] = c.Policies[j], c.Policies[i] })
		if changes := program.ChangesOf(first, program.Compile(c)); !changes.None() {
			t.Fatalf("the same cluster differs: %+v", changes)
		}
	}
}
