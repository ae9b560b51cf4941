package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/network"
)

// host is a machine whose pods have both families.
type host struct {
	*space
	n                *Network
	name             string
	addresses        []string
	own              []string
	pod              *space
	podIPv4, podIPv6 string
	key              string
}

func (h *host) node() *network.Node {
	return &network.Node{Name: h.name, Addresses: h.addresses, PodCidrs: h.own, PublicKey: h.key}
}

// forwards6 has a namespace forward packets of IPv6.
func (s *space) forwards6() {
	s.t.Helper()
	s.must(s.do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) }))
}

// ipv6 gives an interface an address of IPv6 that counts at once.
func (s *space) ipv6(name, address string) {
	s.t.Helper()
	a, err := netlink.ParseAddr(address)
	s.must(err)
	a.Flags = unix.IFA_F_NODAD
	s.must(s.handle.AddrAdd(s.link(name), a))
}

func (s *space) gateway6(via string) {
	s.t.Helper()
	s.must(s.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix("::/0")), Gw: net.ParseIP(via)}))
}

func (s *space) withSwitches6(names map[string]string) {
	s.t.Helper()
	for name, value := range names {
		path := filepath.Join(s.proc, name)
		s.must(errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(value+"\n"), 0o600)))
	}
}

// newHost has pods behind a bridge, which its machine masquerades.
func newHost(t *testing.T, i int) *host {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	h := &host{
		space: newSpace(t), name: fmt.Sprint("host-", i), pod: newSpace(t),
		own:     []string{fmt.Sprintf("10.244.%d.0/24", i), fmt.Sprintf("fd00:244:0:%d::/64", i)},
		podIPv4: fmt.Sprintf("10.244.%d.2", i), podIPv6: netip.MustParseAddr(fmt.Sprintf("fd00:244:0:%d::2", i)).String(),
	}
	h.forwards()
	h.forwards6()
	h.withSwitches6(map[string]string{forwardSwitch6: "0", routers("eth0"): "1", routers("pods"): "1"})
	h.must(h.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "pods"}}))
	h.up("pods", fmt.Sprintf("10.244.%d.1/24", i))
	h.ipv6("pods", fmt.Sprintf("fd00:244:0:%d::1/64", i))
	h.must(h.handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth0", MasterIndex: h.link("pods").Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.pod.fd)}))
	h.up("veth0")
	h.pod.up("eth0", h.podIPv4+"/24")
	h.pod.ipv6("eth0", h.podIPv6+"/64")
	h.pod.gateway(fmt.Sprintf("10.244.%d.1", i))
	h.pod.gateway6(fmt.Sprintf("fd00:244:0:%d::1", i))
	for _, own := range h.own {
		h.masquerades(own)
	}
	return h
}

// begin starts the network of a host, which knows the others.
func (h *host) begin(config string, others ...*host) {
	h.t.Helper()
	h.n = h.process()
	pods, err := h.n.Start(h.t.Context(), network.Options{
		Name: Name, NodeName: h.name, Config: []byte(config), NodeIPs: h.addresses, PodCIDRs: h.own,
		ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/56"}, ServiceCIDRs: []string{"10.96.0.0/16", "fd00:96::/112"},
		StateDirectory: h.state, Logger: slog.New(slog.NewTextHandler(h.t.Output(), nil)),
	})
	h.must(err)
	h.key = pods.PublicKey
	n := h.n
	h.t.Cleanup(func() { _ = n.Stop(context.Background(), true) })
	diff := &network.Diff{Generation: 1, Reset_: true}
	for _, other := range others {
		diff.Set = append(diff.Set, other.node())
	}
	h.must(h.n.Apply(h.t.Context(), diff))
}

// routes6 are the plugin's of IPv6.
func (s *space) routes6() (out []string) {
	s.t.Helper()
	list, err := s.handle.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	s.must(whole(err))
	for _, r := range list {
		l, err := s.handle.LinkByIndex(r.LinkIndex)
		s.must(err)
		out = append(out, fmt.Sprintf("%s via %s dev %s", r.Dst, r.Gw, l.Attrs().Name))
	}
	slices.Sort(out)
	return out
}

func (s *space) expect6(when string, want ...string) {
	s.t.Helper()
	if got := s.routes6(); !slices.Equal(got, want) {
		s.t.Errorf("%s: routes of IPv6 %q, want %q", when, got, want)
	}
}

// pods of two hosts reach each other by both families, each by its own address.
func reachEachOther(t *testing.T, a, b *host) {
	t.Helper()
	a.pod.reaches(t, b.pod, b.podIPv4, a.podIPv4)
	b.pod.reaches(t, a.pod, a.podIPv4, b.podIPv4)
	a.pod.reaches(t, b.pod, b.podIPv6, a.podIPv6)
	b.pod.reaches(t, a.pod, a.podIPv6, b.podIPv6)
}

// TestBothFamilies: pods of hosts with both families reach each other by both, over one link and through the tunnel,
// whose packets are of IPv4. Nothing is left, and switches are what they were.
func TestBothFamilies(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	for i, h := range []*host{a, b} {
		h.ipv6("eth0", fmt.Sprintf("2001:db8::%d/64", 10+i))
		h.addresses = []string{fmt.Sprintf("192.0.2.%d", 10+i), fmt.Sprintf("2001:db8::%d", 10+i)}
	}
	a.begin(`{"backend": "host-gw", "checkInterval": "1s"}`, b)
	b.begin(`{"backend": "host-gw"}`, a)
	const direct = "fd00:244:0:1::/64 via 2001:db8::11 dev eth0"
	a.expect(t, "on one link", "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90")
	a.expect6("on one link", direct)
	for name, want := range map[string]string{forwardSwitch6: "1", routers("eth0"): "2", routers("pods"): "1\n"} {
		if got, err := os.ReadFile(filepath.Join(a.proc, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	reachEachOther(t, a, b)
	// Deleted by hand, and back.
	a.must(a.handle.RouteDel(&netlink.Route{Dst: netOf(netip.MustParsePrefix("fd00:244:0:1::/64")), Protocol: protocol}))
	eventually(t, func() error {
		if got := a.routes6(); !slices.Equal(got, []string{direct}) {
			return fmt.Errorf("routes of IPv6 %q", got)
		}
		return nil
	})
	// A node without an address of IPv6 has no route of it by host-gw, and has the other one.
	without := b.node()
	without.Addresses = without.Addresses[:1]
	a.must(a.n.Apply(t.Context(), &network.Diff{Generation: 2, Set: []*network.Node{without}}))
	a.expect6("without an address of IPv6")
	if st := a.n.Status(); len(st.Refused) != 1 || !strings.Contains(st.Refused[0].GetReason(), "it has no address (InternalIP) of IPv6, and backend host-gw needs one") {
		t.Errorf("refused %v", st.Refused)
	}
	a.must(a.n.Stop(t.Context(), true))
	b.must(b.n.Stop(t.Context(), true))

	a.needsVXLAN(t)
	t.Run("the tunnel", func(t *testing.T) {
		for _, backend := range []string{VXLAN, Auto} {
			// With auto the node has no address of IPv6 that the other one knows.
			some := func(h *host) *host {
				c := *h
				if backend == Auto {
					c.addresses = h.addresses[:1]
				}
				return &c
			}
			a.begin(`{"backend": "host-gw"}`, b) // routes by a gateway, in whose place come others
			a.must(a.n.Stop(t.Context(), false))
			a.begin(`{"backend": "`+backend+`"}`, some(b))
			b.begin(`{"backend": "`+backend+`"}`, some(a))
			a.expect6(backend, "fd00:244:0:1::/64 via fd00:244:0:1:: dev pintle-vxlan")
			if st := a.n.Status(); len(st.Refused) > 0 {
				t.Errorf("%s: refused %v", backend, st.Refused)
			}
			reachEachOther(t, a, b)
			a.reaches(t, b.pod, b.podIPv6, map[string]string{VXLAN: "fd00:244::", Auto: "fd00:244::"}[backend])
			if a.tables() != 2 {
				t.Errorf("%s: %d tables, want 2", backend, a.tables())
			}
			a.must(a.n.Stop(t.Context(), true))
			b.must(b.n.Stop(t.Context(), true))
		}
	})
	a.expect6("after a stop")
	if a.tables() != 0 {
		t.Errorf("after a stop there are %d tables", a.tables())
	}
	for name, want := range map[string]string{forwardSwitch6: "0", routers("eth0"): "1"} {
		if got, err := os.ReadFile(filepath.Join(a.proc, name)); err != nil || string(got) != want {
			t.Errorf("after a stop %s is %q, %v; want %q", name, got, err, want)
		}
	}
	if left, err := os.ReadDir(a.state); err != nil || len(left) > 0 {
		t.Errorf("after a stop there is %v, %v", left, err)
	}
}

// TestIPv6Alone: pods have IPv6 alone, over the link and through a tunnel of IPv6, which takes packets of nodes alone.
func TestIPv6Alone(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	for i, h := range []*host{a, b} {
		h.ipv6("eth0", fmt.Sprintf("2001:db8::%d/64", 10+i))
		h.addresses, h.own = []string{fmt.Sprintf("2001:db8::%d", 10+i)}, h.own[1:]
	}
	for _, backend := range []string{HostGW, VXLAN} {
		if backend == VXLAN {
			a.needsVXLAN(t)
		}
		a.begin(`{"backend": "`+backend+`"}`, b)
		b.begin(`{"backend": "`+backend+`"}`, a)
		a.expect(t, backend)
		a.pod.reaches(t, b.pod, b.podIPv6, a.podIPv6)
		b.pod.reaches(t, a.pod, a.podIPv6, b.podIPv6)
		if a.tables() != 1 {
			t.Errorf("%s: %d tables, want 1", backend, a.tables())
		}
		if backend == VXLAN {
			elements, err := a.nftables().GetSetElements(&nft.Set{Table: &nft.Table{Name: tableName, Family: nft.TableFamilyIPv6}, Name: sendersSet, KeyType: nft.TypeIP6Addr})
			if err != nil || len(elements) != 1 || net.IP(elements[0].Key).String() != "2001:db8::11" {
				t.Errorf("senders %v, %v", elements, err)
			}
		}
		a.must(a.n.Stop(t.Context(), true))
		b.must(b.n.Stop(t.Context(), true))
	}
	if got, err := os.ReadFile(filepath.Join(a.proc, forwardSwitch)); err != nil || string(got) != "0\n" {
		t.Errorf("IPv4 is forwarded: %q, %v", got, err)
	}
}

// TestNoIPv6: a machine that has no IPv6 says so, whatever the backend, and nothing is left.
func TestNoIPv6(t *testing.T) {
	for _, backend := range []string{Auto, WireGuard} {
		h := newHost(t, 0)
		h.must(os.RemoveAll(filepath.Join(h.proc, "net/ipv6")))
		_, err := h.process().Start(t.Context(), network.Options{
			Name: Name, Config: []byte(`{"backend": "` + backend + `"}`), NodeIPs: []string{"192.0.2.10"}, PodCIDRs: h.own,
			ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/56"}, StateDirectory: h.state, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), "range of pod IPs fd00:244::/64 of this node: the machine has no IPv6") {
			t.Errorf("%s: %v", backend, err)
		}
		h.untouched(backend)
	}
}

// untouched: a start that failed left nothing, and the switches are what they were.
func (s *space) untouched(when string) {
	s.t.Helper()
	if left, err := os.ReadDir(s.state); err != nil || len(left) > 0 {
		s.t.Errorf("%s: %v stays, %v", when, left, err)
	}
	for _, name := range []string{forwardSwitch, forwardSwitch6} {
		got, err := os.ReadFile(filepath.Join(s.proc, name))
		if text := strings.TrimSpace(string(got)); !errors.Is(err, fs.ErrNotExist) && text != "0" {
			s.t.Errorf("%s: %s is %q, %v", when, name, text, err)
		}
	}
	routes, err := s.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
	if whole(err) != nil || len(routes) > 0 || s.tables() != 0 {
		s.t.Errorf("%s: routes %v, %v, and %d tables stay", when, routes, err, s.tables())
	}
	if _, err := s.handle.LinkByName(secureName); err == nil {
		s.t.Errorf("%s: interface %s stays", when, secureName)
	}
}

// TestOuterFamily: the tunnel knows a node by its first range. One that is another's leads nowhere, and takes nothing.
func TestOuterFamily(t *testing.T) {
	c := cluster{
		node: []netip.Addr{netip.MustParseAddr("192.0.2.10")}, own: prefixes("10.244.0.0/24", "fd00:244::/64"), all: prefixes("10.244.0.0/16", "fd00:244::/56"),
	}
	good := member("good", "192.0.2.11", "10.244.1.0/24", "fd00:244:0:1::/64")
	for name, tt := range map[string]struct {
		node *network.Node
		want []string
	}{
		"IPv4 alone":              {member("x", "192.0.2.66", "10.244.2.0/24", "fd00:244:0:2::/64"), []string{"10.244.2.0/24 192.0.2.66 192.0.2.66 10.244.2.0/24", "fd00:244:0:2::/64 invalid IP 192.0.2.66 10.244.2.0/24"}},
		"both":                    {&network.Node{Name: "x", Addresses: []string{"2001:db8::66", "192.0.2.66"}, PodCidrs: []string{"fd00:244:0:2::/64", "10.244.2.0/24"}}, []string{"fd00:244:0:2::/64 2001:db8::66 192.0.2.66 fd00:244:0:2::/64", "10.244.2.0/24 192.0.2.66 192.0.2.66 fd00:244:0:2::/64"}},
		"IPv6 alone":              {member("x", "2001:db8::66", "fd00:244:0:2::/64"), []string{"fd00:244:0:2::/64 2001:db8::66 invalid IP fd00:244:0:2::/64"}},
		"the first is another's":  {member("x", "192.0.2.66", "10.244.1.0/24", "fd00:244:0:2::/64"), []string{"fd00:244:0:2::/64 invalid IP 192.0.2.66 invalid Prefix"}},
		"the second is another's": {member("x", "192.0.2.66", "10.244.2.0/24", "fd00:244:0:1::/64"), []string{"10.244.2.0/24 192.0.2.66 192.0.2.66 10.244.2.0/24"}},
		"the first is nonsense":   {member("x", "192.0.2.66", "nonsense", "fd00:244:0:2::/64"), []string{"fd00:244:0:2::/64 invalid IP 192.0.2.66 invalid Prefix"}},
		"this node's":             {member("x", "192.0.2.66", "10.244.0.0/24", "fd00:244::/64"), nil},
	} {
		hops, _, _ := c.plan([]*network.Node{good, tt.node}, nil, nil, nil)
		var got []string
		for _, h := range hops {
			if h.node == "x" {
				got = append(got, fmt.Sprint(h.to, " ", h.via, " ", h.far, " ", h.end))
			}
		}
		if !slices.Equal(got, tt.want) || len(hops) != 2+len(got) {
			t.Errorf("%s: %q of %d hops, want %q", name, got, len(hops), tt.want)
		}
	}
	l := &linux{cfg: Config{Backend: Auto}, options: options{cluster: c}}
	if _, _, why := l.choose(hop{node: "x", to: netip.MustParsePrefix("fd00:244:0:2::/64"), far: netip.MustParseAddr("192.0.2.66")}); !strings.Contains(why, "which knows a node by its first range, and that is not its own") {
		t.Errorf("chosen: %q", why)
	}
	if _, _, why := l.choose(hop{node: "x", to: netip.MustParsePrefix("fd00:244:0:2::/64")}); !strings.Contains(why, "it has no address (InternalIP) of IPv4, which the tunnel's packets have") {
		t.Errorf("chosen: %q", why)
	}
}
