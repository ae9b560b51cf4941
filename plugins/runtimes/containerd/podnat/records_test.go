package podnat

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// TestRefused: what no sandbox may have is refused before anything is written.
func TestRefused(t *testing.T) {
	for want, s := range map[string]Sandbox{
		"want letters":               {ID: "../../etc/passwd", Interface: "eth0"},
		"with interface":             {ID: "one", Interface: "a,b"},
		"is not tcp, udp or sctp":    {ID: "one", Interface: "eth0", Ports: []Port{{HostPort: 1, ContainerPort: 1, Protocol: "icmp"}}},
		"want ports from 1 to 65535": {ID: "one", Interface: "eth0", Ports: []Port{{HostPort: 0, ContainerPort: 1, Protocol: "tcp"}}},
		"is no address of a machine": {ID: "one", Interface: "eth0", Ports: []Port{{HostPort: 1, ContainerPort: 1, Protocol: "tcp", HostIP: netip.MustParseAddr("fe80::1%eth0")}}},
		"is no address of a sandbox": {ID: "one", Interface: "eth0", Addresses: []netip.Prefix{{}}},
		"are allowed":                {ID: "one", Interface: "eth0", Ports: make([]Port, maxPorts+1)},
	} {
		h := HostPorts{Bridge: "none0", Directory: t.TempDir()}
		if err := h.Add(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if left, err := os.ReadDir(h.Directory); err != nil || len(left) > 0 {
			t.Errorf("%s: left %v, %v", want, left, err)
		}
		if err := h.Remove("../../etc/passwd", "eth0"); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
}

// TestShapes: rules depend on networks alone, elements on ports, the later sandbox wins, and a
// family without ports has no table.
func TestShapes(t *testing.T) {
	h := HostPorts{Bridge: "b0"}
	one, two := sandbox("one", ipA, port(80, "tcp", "")), sandbox("two", ipB, port(80, "tcp", ""), port(80, "tcp", "192.0.2.1"))
	a, b := h.shape(ipv4, []Sandbox{one, two}), h.shape(ipv4, []Sandbox{two, one})
	if len(a.maps[0].elements) != 1 || len(a.maps[1].elements) != 1 {
		t.Errorf("elements %v", a.maps)
	}
	for key, value := range a.maps[1].elements {
		if key != "\x06\x00\x00\x00\x00\x50\x00\x00" || value != "\x0a\xf4\x00\x03\x1f\x90\x00\x00" || b.maps[1].elements[key] == value {
			t.Errorf("element %q: %q", key, value)
		}
	}
	if h.shape(ipv6, []Sandbox{{ID: "x", Interface: "e", Ports: one.Ports, Addresses: one.Addresses[:1]}}) != nil || h.shape(ipv4, nil) != nil {
		t.Error("a table without elements")
	}
	for _, s := range []*shape{a, h.shape(ipv6, []Sandbox{one}), Masquerade{Bridge: "b0", Pods: one.Addresses[:1], Others: manyRanges()}.shape(ipv4)} {
		seen := map[string]bool{}
		for _, c := range s.chains {
			for _, r := range c.rules {
				if seen[c.name+r.comment] || len(r.comment) > maxComment {
					t.Errorf("%s %s: comment %q", s.name, c.name, r.comment)
				}
				seen[c.name+r.comment] = true
			}
		}
	}
	long := Masquerade{Pods: one.Addresses[:1], Others: manyRanges()}
	other := Masquerade{Pods: one.Addresses[:1], Others: append(manyRanges(), netip.MustParsePrefix("10.9.0.0/16"))}
	if long.shape(ipv4).chains[0].rules[0].comment == other.shape(ipv4).chains[0].rules[0].comment {
		t.Error("rules of other ranges have one comment")
	}
}

func manyRanges() (out []netip.Prefix) {
	for i := range 20 {
		out = append(out, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(i), 0}), 24))
	}
	return out
}

// TestStaleFlows: of UDP flows those alone are deleted that a sandbox's ports are about.
func TestStaleFlows(t *testing.T) {
	machine := map[netip.Addr]bool{netip.MustParseAddr(nodeIP): true, netip.MustParseAddr(secondIP): true}
	s := sandbox("one", ipA, port(53, "udp", ""), port(54, "udp", nodeIP), port(55, "tcp", ""))
	flow := func(protocol uint8, to, answers string) conntrack.Flow {
		return conntrack.Flow{Protocol: protocol, Original: conntrack.Tuple{Destination: netip.MustParseAddrPort(to)}, Reply: conntrack.Tuple{Source: netip.MustParseAddrPort(answers)}}
	}
	for _, q := range []struct {
		name, to, answers string
		protocol          uint8
		come, gone        bool
	}{
		{"elsewhere", nodeIP + ":53", ipB + ":8080", 17, true, false},
		{"the machine itself", secondIP + ":53", secondIP + ":53", 17, true, false},
		{"another port of the pod", nodeIP + ":53", ipA + ":53", 17, true, false},
		{"here", nodeIP + ":53", ipA + ":8080", 17, false, true},
		{"at localhost", "127.0.0.1:53", ipB + ":8080", 17, true, false},
		{"a name server elsewhere", "10.96.0.10:53", ipB + ":53", 17, false, false},
		{"of its address", nodeIP + ":54", ipB + ":8080", 17, true, false},
		{"of another address", secondIP + ":54", ipB + ":8080", 17, false, false},
		{"TCP", nodeIP + ":55", ipB + ":8080", 6, false, false},
		{"UDP of a port of TCP", nodeIP + ":55", ipB + ":8080", 17, false, false},
	} {
		for gone, want := range map[bool]bool{false: q.come, true: q.gone} {
			f := &staleFlows{sandbox: s, gone: gone, machine: machine}
			if got := f.match(flow(q.protocol, q.to, q.answers)); got != want {
				t.Errorf("%s, gone %t: %t", q.name, gone, got)
			}
		}
	}
}
