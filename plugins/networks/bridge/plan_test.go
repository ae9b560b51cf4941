package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/sdk/network"
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, text := range list {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func member(name, address string, ranges ...string) *network.Node {
	return &network.Node{Name: name, Addresses: []string{address}, PodCidrs: ranges}
}

// TestPlan: a node has its own ranges alone, whatever its Node says.
func TestPlan(t *testing.T) {
	c := cluster{own: prefixes("10.244.0.0/24"), all: prefixes("10.244.0.0/16"), services: prefixes("10.96.0.0/16")}
	machine := []taken{
		{netip.MustParsePrefix("192.0.2.0/24"), "interface eth0", true}, {netip.MustParsePrefix("10.244.200.0/24"), "interface lab0", true},
		{netip.MustParsePrefix("10.0.0.0/8"), "a route over interface vpn0", false}, {netip.MustParsePrefix("10.244.210.64/26"), "a route over interface vpn0", false},
	}
	local := []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("10.244.0.1")}
	good := member("b", "192.0.2.11", "10.244.1.0/24")
	for name, tt := range map[string]struct {
		nodes []*network.Node
		held  map[string]string // by range
		want  []string          // of hops
		fault string            // of the last node; empty: none is refused
	}{
		"one":                    {nodes: []*network.Node{good}, want: []string{"b 10.244.1.0/24 192.0.2.11"}},
		"no range yet":           {nodes: []*network.Node{member("b", "192.0.2.11")}},
		"no address yet":         {nodes: []*network.Node{{Name: "b", PodCidrs: []string{"10.244.1.0/24"}}}},
		"another family's":       {nodes: []*network.Node{member("b", "fd01::1", "10.244.1.0/24")}, want: []string{}, fault: "no address"},
		"this node's range":      {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.0.0/24")}, fault: "overlaps 10.244.0.0/24 of this node"},
		"a part of it":           {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.0.128/25")}, fault: "of this node"},
		"the whole cluster's":    {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.0.0/16")}, fault: "of this node"},
		"another's range":        {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.1.0/24")}, fault: "overlaps 10.244.1.0/24 of node b, which had it before"},
		"a part of another's":    {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.1.7/32")}, fault: "of node b"},
		"more than another's":    {nodes: []*network.Node{member("b", "192.0.2.11", "10.244.32.0/24"), member("x", "192.0.2.66", "10.244.32.0/20")}, want: []string{"b 10.244.32.0/24 192.0.2.11"}, fault: "of node b"},
		"of one without address": {nodes: []*network.Node{{Name: "b", PodCidrs: []string{"10.244.1.0/24"}}, member("x", "192.0.2.66", "10.244.1.0/24")}, want: []string{}, fault: "of node b"},
		"outside":                {nodes: []*network.Node{good, member("x", "192.0.2.66", "192.0.2.0/24")}, fault: "is outside of the cluster's, 10.244.0.0/16"},
		"everything":             {nodes: []*network.Node{good, member("x", "192.0.2.66", "0.0.0.0/0")}, fault: "is outside"},
		"another family":         {nodes: []*network.Node{good, member("x", "192.0.2.66", "fd00::/64")}, fault: "is outside"},
		"mapped":                 {nodes: []*network.Node{good, member("x", "192.0.2.66", "::ffff:10.244.9.0/120")}, fault: "is none"},
		"wider than all":         {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.0.0.0/8")}, fault: "10.0.0.0/8 is outside of the cluster's, 10.244.0.0/16"},
		"of many":                {nodes: []*network.Node{member("b", "192.0.2.11", "10.244.33.0/24", "10.244.32.0/24", "10.244.34.0/24"), member("x", "192.0.2.66", "10.244.32.0/20")}, want: []string{"b 10.244.33.0/24 192.0.2.11", "b 10.244.32.0/24 192.0.2.11", "b 10.244.34.0/24 192.0.2.11"}, fault: "overlaps 10.244.32.0/24 of node b"},
		"an older claims later":  {nodes: []*network.Node{member("b", "192.0.2.11", "10.244.50.0/24"), member("x", "192.0.2.66", "10.244.50.0/23")}, held: map[string]string{"10.244.50.0/24": "b"}, want: []string{"b 10.244.50.0/24 192.0.2.11"}, fault: "of node b, which had it before"},
		"held by one that went":  {nodes: []*network.Node{good}, held: map[string]string{"10.244.1.0/24": "gone"}, want: []string{"b 10.244.1.0/24 192.0.2.11"}},
		"a holder outside":       {nodes: []*network.Node{good, member("x", "192.0.2.66", "0.0.0.0/0")}, held: map[string]string{"0.0.0.0/0": "x"}, fault: "is outside"},
		"services":               {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.96.0.0/24")}, fault: "is outside"},
		"not masked":             {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.9.1/24")}, fault: "is none"},
		"nonsense":               {nodes: []*network.Node{good, member("x", "192.0.2.66", strings.Repeat("x", 1000))}, fault: "is none"},
		"many":                   {nodes: []*network.Node{good, member("x", "192.0.2.66", slices.Repeat([]string{"10.244.9.0/24"}, 17)...)}, fault: "17 ranges"},
		"the machine's network":  {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.200.0/25")}, fault: "overlaps 10.244.200.0/24 of this machine (interface lab0)"},
		"a wider route":          {nodes: []*network.Node{member("b", "192.0.2.11", "10.244.210.0/27")}, want: []string{"b 10.244.210.0/27 192.0.2.11"}},
		"a route in it":          {nodes: []*network.Node{good, member("x", "192.0.2.66", "10.244.210.0/24")}, fault: "overlaps 10.244.210.64/26 of this machine (a route over interface vpn0)"},
		"this machine's address": {nodes: []*network.Node{good, member("x", "192.0.2.10", "10.244.9.0/24")}, fault: "its address 192.0.2.10 is this machine's"},
		"loopback":               {nodes: []*network.Node{good, member("x", "127.0.0.1", "10.244.9.0/24")}, fault: "is not the address of a machine"},
		"everybody":              {nodes: []*network.Node{good, member("x", "255.255.255.255", "10.244.9.0/24")}, fault: "is not the address of a machine"},
		"multicast":              {nodes: []*network.Node{good, member("x", "224.0.0.1", "10.244.9.0/24")}, fault: "is not the address of a machine"},
		"nobody":                 {nodes: []*network.Node{good, member("x", "0.0.0.0", "10.244.9.0/24")}, fault: "is not the address of a machine"},
		"a pod's address":        {nodes: []*network.Node{good, member("x", "10.244.1.9", "10.244.9.0/24")}, fault: "is in a range of pods or services"},
		"a service's address":    {nodes: []*network.Node{good, member("x", "10.96.0.1", "10.244.9.0/24")}, fault: "is in a range of pods or services"},
		"a zone":                 {nodes: []*network.Node{good, member("x", "fe80::1%eth0", "10.244.9.0/24")}, fault: "is none"},
		"a second address":       {nodes: []*network.Node{{Name: "b", Addresses: []string{"fd01::1", "::ffff:192.0.2.12"}, PodCidrs: []string{"10.244.2.0/24"}}}, want: []string{"b 10.244.2.0/24 192.0.2.12"}},
	} {
		t.Run(name, func(t *testing.T) {
			held := map[netip.Prefix]string{}
			for to, node := range tt.held {
				held[netip.MustParsePrefix(to)] = node
			}
			hops, refused, claimed := c.plan(tt.nodes, machine, local, held)
			for _, h := range hops {
				if claimed[h.to] != h.node {
					t.Errorf("%s is claimed by %q, and leads to %s", h.to, claimed[h.to], h.node)
				}
			}
			got := []string{}
			for _, h := range hops {
				got = append(got, h.node+" "+h.to.String()+" "+h.via.String())
			}
			if want := tt.want; want == nil && tt.fault != "" && len(tt.nodes) > 1 {
				tt.want = []string{"b 10.244.1.0/24 192.0.2.11"} // the good one keeps its own
			} else if want == nil {
				tt.want = []string{}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("hops %q, want %q", got, tt.want)
			}
			if tt.fault == "" {
				if len(refused) > 0 {
					t.Errorf("refused %v", refused)
				}
				return
			}
			last := tt.nodes[len(tt.nodes)-1].GetName()
			if len(refused) == 0 || refused[len(refused)-1].GetNode() != last || !strings.Contains(refused[len(refused)-1].GetReason(), tt.fault) {
				t.Errorf("refused %v, want %s: %q", refused, last, tt.fault)
			}
			for _, r := range refused {
				if len(r.GetReason()) > 300 {
					t.Errorf("%d bytes are said of one node", len(r.GetReason()))
				}
			}
		})
	}
}

// TestClaimsLater: an older Node that had no range claims that of another, in each order of the list and
// after its address changed. It never gets it while the other claims it.
func TestClaimsLater(t *testing.T) {
	c := cluster{own: prefixes("10.244.0.0/24"), all: prefixes("10.244.0.0/16")}
	victim := member("victim", "192.0.2.11", "10.244.1.0/24")
	theirs := netip.MustParsePrefix("10.244.1.0/24")
	_, _, held := c.plan([]*network.Node{member("older", "192.0.2.66"), victim}, nil, nil, nil)
	for _, cidr := range []string{"10.244.1.0/24", "10.244.1.0/25", "10.244.0.0/15", "10.244.2.0/23"} {
		older := member("older", "192.0.2.66", cidr)
		for _, nodes := range [][]*network.Node{{older, victim}, {victim, older}, {older, member("victim", "192.0.2.99", "10.244.1.0/24")}} {
			hops, refused, next := c.plan(nodes, nil, nil, held)
			free := cidr == "10.244.2.0/23"
			if len(refused) != 1 && !free || free && len(refused) != 0 || next[theirs] != "victim" {
				t.Errorf("%s: refused %v, held %v", cidr, refused, next)
			}
			for _, h := range hops {
				if h.to == theirs && h.node != "victim" {
					t.Errorf("%s: %s has the range of another", cidr, h.node)
				}
			}
		}
	}
	// What the victim gives up is free.
	hops, _, _ := c.plan([]*network.Node{member("older", "192.0.2.66", "10.244.1.0/24")}, nil, nil, held)
	if len(hops) != 1 || hops[0].node != "older" {
		t.Errorf("a range that is free: %v", hops)
	}
}

// TestHolderInTheWay: this machine has a network within a node's range for a while, or its services are in
// it. The node is not reached then, and no older Node gets a part of its range.
func TestHolderInTheWay(t *testing.T) {
	const cidr = "10.244.1.0/24"
	theirs := netip.MustParsePrefix(cidr)
	victim := member("victim", "192.0.2.11", cidr)
	usual := cluster{own: prefixes("10.244.0.0/24"), all: prefixes("10.244.0.0/16")}
	services := usual
	services.services = prefixes("10.244.1.64/26")
	_, _, held := usual.plan([]*network.Node{member("older", "192.0.2.66"), victim}, nil, nil, nil)
	for name, tt := range map[string]struct {
		cluster cluster
		machine []taken
		fault   string
	}{
		"a network": {usual, []taken{{netip.MustParsePrefix("10.244.1.64/26"), "interface lab0", true}}, "overlaps 10.244.1.64/26 of this machine (interface lab0)"},
		"a route":   {usual, []taken{{netip.MustParsePrefix("10.244.1.64/26"), "a route over interface vpn0", false}}, "overlaps 10.244.1.64/26 of this machine"},
		"services":  {services, nil, "overlaps that of services, 10.244.1.64/26"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, claim := range []string{"10.244.1.128/25", cidr, "10.244.1.64/26"} {
				nodes := []*network.Node{member("older", "192.0.2.66", claim), victim}
				hops, refused, next := tt.cluster.plan(nodes, tt.machine, nil, held)
				if len(hops) != 0 || !maps.Equal(next, held) {
					t.Errorf("%s: hops %v, held %v", claim, hops, next)
				}
				if len(refused) != 2 || !strings.Contains(refused[0].GetReason(), tt.fault) || !strings.Contains(refused[1].GetReason(), "overlaps "+cidr+" of node victim, which had it before") {
					t.Errorf("%s: refused %v", claim, refused)
				}
				// It passed.
				hops, _, _ = usual.plan(nodes, nil, nil, next)
				if len(hops) != 1 || hops[0].node != "victim" || hops[0].to != theirs {
					t.Errorf("%s: afterwards hops %v", claim, hops)
				}
			}
			// Who did not have such a range does not get it.
			hops, refused, next := tt.cluster.plan([]*network.Node{victim}, tt.machine, nil, nil)
			if len(hops) != 0 || len(next) != 0 || len(refused) != 1 || !strings.Contains(refused[0].GetReason(), tt.fault) {
				t.Errorf("a new one: hops %v, held %v, refused %v", hops, next, refused)
			}
		})
	}
}

// TestSameHardwareAddress: a range of IPv6 is chosen so that its end of the tunnel has the hardware
// address of another's, whose packets would go to it. It is refused.
func TestSameHardwareAddress(t *testing.T) {
	c := cluster{own: prefixes("fd00:0:0:1::/64"), all: prefixes("fd00::/32")}
	want := map[string]netip.Prefix{hardware(c.own[0]).String(): c.own[0]}
	victims := []*network.Node{}
	for i := 2; len(victims) < 2000; i++ {
		to := netip.MustParsePrefix(fmt.Sprintf("fd00:0:1:%x::/64", i))
		victims = append(victims, member(fmt.Sprintf("victim%d", i), "fd01::11", to.String()))
		want[hardware(to).String()] = to
	}
	// Of 4 billion addresses 2,000 are taken: a search of some millions finds one.
	var thief netip.Prefix
	for i := uint64(0); !thief.IsValid(); i++ {
		raw := [16]byte{0xfd, 0, 0, 0, 0, 2}
		binary.BigEndian.PutUint64(raw[6:], i)
		to := netip.PrefixFrom(netip.AddrFrom16(raw), 112)
		if _, ok := want[hardware(to).String()]; ok {
			thief = to
		}
	}
	hops, refused, _ := c.plan(append(victims, member("thief", "fd01::66", thief.String())), nil, nil, nil)
	if len(hops) != len(victims) || len(refused) != 1 || refused[0].GetNode() != "thief" || !strings.Contains(refused[0].GetReason(), "has the hardware address of "+want[hardware(thief).String()].String()) {
		t.Errorf("%d hops, want %d; refused %v", len(hops), len(victims), refused)
	}
}

// TestHolders: they outlive a restart, and a file that was tampered with is named.
func TestHolders(t *testing.T) {
	dir := t.TempDir()
	h, err := readHolders(dir)
	if err != nil || len(h.of) != 0 {
		t.Fatalf("%v, %v", h.of, err)
	}
	of := map[netip.Prefix]string{netip.MustParsePrefix("10.244.1.0/24"): "b", netip.MustParsePrefix("fd00::/64"): "b"}
	// A folder in the file's place: the write fails, and the next one is not left out.
	if err := os.Mkdir(h.file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.keep(of); err == nil || !strings.Contains(err.Error(), h.file) {
		t.Error(err)
	}
	if err := os.Remove(h.file); err != nil {
		t.Fatal(err)
	}
	if err := h.keep(of); err != nil {
		t.Fatal(err)
	}
	again, err := readHolders(dir)
	if err != nil || !maps.Equal(again.of, h.of) {
		t.Errorf("%v, %v", again.of, err)
	}
	for _, text := range []string{`{"10.244.1.0": "b"}`, `[]`, ``, strings.Repeat(" ", mostHolders+1)} {
		if err := os.WriteFile(h.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if bad, err := readHolders(dir); err == nil || len(bad.of) != 0 || !strings.Contains(err.Error(), h.file) {
			t.Errorf("%.20s: %v, %v", text, bad.of, err)
		} else if err := bad.keep(nil); err != nil {
			t.Error(err)
		}
		if good, err := readHolders(dir); err != nil || len(good.of) != 0 {
			t.Errorf("%.20s stays: %v, %v", text, good.of, err)
		}
	}
	if err := os.WriteFile(h.file+unfinished, nil, 0o600); err != nil { // a write that was cut off
		t.Fatal(err)
	}
	if err := errors.Join(h.remove(), h.remove()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v stays, %v", left, err)
	}
}

// TestCollision: a node whose own range is a network of its machine does not start.
func TestCollision(t *testing.T) {
	for _, tt := range []struct {
		own     string
		machine []taken
		fault   string
	}{
		{"10.244.0.0/24", []taken{{netip.MustParsePrefix("192.0.2.0/24"), "interface eth0", true}, {netip.MustParsePrefix("10.0.0.0/8"), "a route", false}}, ""},
		{"10.244.0.0/24", []taken{{netip.MustParsePrefix("10.244.0.0/20"), "interface eth0", true}}, "10.244.0.0/24 of this node overlaps the network 10.244.0.0/20 of interface eth0"},
		{"10.244.0.0/24", []taken{{netip.MustParsePrefix("10.244.0.7/32"), "interface wg0", true}}, "of interface wg0"},
		{"10.96.4.0/24", nil, "overlaps that of services, 10.96.0.0/16"},
		{"10.244.0.0/24", []taken{{netip.MustParsePrefix("10.96.5.0/24"), "interface eth0", true}}, "range of services 10.96.0.0/16 overlaps the network 10.96.5.0/24 of interface eth0"},
		{"10.244.0.0/24", []taken{{netip.MustParsePrefix("10.96.0.10/32"), "interface kube-ipvs0", true}}, ""},
		{"10.244.0.0/24", []taken{{netip.MustParsePrefix("10.96.0.0/16"), "a route over interface eth0", false}}, ""},
	} {
		c := cluster{own: prefixes(tt.own), all: prefixes("10.0.0.0/8"), services: prefixes("10.96.0.0/16")}
		err := c.collision(tt.machine)
		if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: %v, want %q", tt.own, err, tt.fault)
		}
	}
}

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"backend": "ipip"}`: "want auto, host-gw, vxlan or wireguard", `{"mtu": 100}`: "mtu 100", `{"mtu": 70000}`: "mtu 70000", `{"vni": 16777216}`: "vni", `{"port": 65536}`: "port",
		`{"masqueradeBit": 32}`: "masqueradeBit 32", `{"checkInterval": "1ms"}`: "checkInterval", `{"bridge": "x"}`: "unknown field",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	c, err := parseConfig(nil)
	if err != nil || c.Backend != Auto || c.mark != 0x4000 || c.Port != 8472 || c.VNI != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = parseConfig([]byte(`{"backend": "wireguard"}`)); err != nil || c.Port != 51820 {
		t.Errorf("%+v, %v", c, err)
	}
}
