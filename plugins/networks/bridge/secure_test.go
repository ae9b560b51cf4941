package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"pintle.dev/pintle/sdk/network"
)

// TestKey: a node has one key, which its owner alone can read. A file that is none is named, and nothing of it is said.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, keyFile)
	key, err := ownKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if again, err := ownKey(dir); err != nil || again != key {
		t.Errorf("another start has another key: %v", err)
	}
	good := key.String()
	for name, spoil := range map[string]func() error{
		"readable by others": func() error { return os.Chmod(file, 0o640) },
		"a link": func() error {
			return os.Symlink("/etc/hostname", file)
		},
		"a folder":  func() error { return os.Mkdir(file, 0o700) },
		"too large": func() error { return os.WriteFile(file, []byte(good+strings.Repeat("\n", 500)), 0o600) },
		"cut off":   func() error { return os.WriteFile(file, []byte(good[:20]), 0o600) },
		"empty":     func() error { return os.WriteFile(file, nil, 0o600) },
		"all zero":  func() error { return os.WriteFile(file, []byte(wgtypes.Key{}.String()), 0o600) },
		"nonsense":  func() error { return os.WriteFile(file, []byte("SECRET!"), 0o600) },
	} {
		if name != "readable by others" {
			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := ownKey(dir); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), good[:10]) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.RemoveAll(file); err != nil {
		t.Fatal(err)
	}
	if other, err := ownKey(dir); err != nil || other == key {
		t.Errorf("after the file went: %v", err)
	}
	if err := removeKey(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v stays, %v", left, err)
	}
}

func newKey(t *testing.T) wgtypes.Key {
	t.Helper()
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestPeers: a node is reached by its own key alone, whatever others say that theirs is.
func TestPeers(t *testing.T) {
	own, b, c := newKey(t), newKey(t).PublicKey(), newKey(t).PublicKey()
	l := &linux{cfg: Config{Backend: WireGuard, Port: 51820}, secure: secure{key: own}}
	l.options.node = []netip.Addr{netip.MustParseAddr("192.0.2.10")}
	at := func(node, to, key string) hop {
		return hop{node: node, to: netip.MustParsePrefix(to), far: netip.MustParseAddr("192.0.2.11"), key: key}
	}
	expect := func(when string, hops []hop, want map[wgtypes.Key]string, faults ...string) {
		t.Helper()
		peers, refused := l.peers(hops)
		got := map[wgtypes.Key]string{}
		for key, p := range peers {
			text := p.at.String()
			for _, h := range p.hops {
				text += " " + h.node + " " + h.to.String()
			}
			got[key] = text
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: peers %v, want %v", when, got, want)
		}
		if len(refused) != len(faults) {
			t.Errorf("%s: refused %v, want %q", when, refused, faults)
			return
		}
		for i, fault := range faults {
			if node, why, _ := strings.Cut(fault, ": "); refused[i].GetNode() != node || !strings.Contains(refused[i].GetReason(), why) {
				t.Errorf("%s: refused %v, want %q", when, refused[i], fault)
			}
		}
	}
	const end = "192.0.2.11:51820"
	expect("two ranges", []hop{at("b", "10.244.1.0/24", b.String()), at("b", "fd00:1::/64", b.String())}, map[wgtypes.Key]string{b: end + " b 10.244.1.0/24 b fd00:1::/64"})
	expect("no key", []hop{at("x", "10.244.2.0/24", "")}, nil, "x: has no public key yet")
	for _, text := range []string{"nonsense", b.String()[:40], b.String() + "=", wgtypes.Key{}.String(), strings.Repeat("A", 100_000), " " + b.String()} {
		expect("no key at all", []hop{at("x", "10.244.2.0/24", text)}, nil, "x: is none")
	}
	expect("this node's key", []hop{at("x", "10.244.2.0/24", own.PublicKey().String())}, nil, "x: is this node's")
	noAddress := at("x", "fd00:2::/64", c.String())
	noAddress.far = netip.Addr{}
	expect("no address", []hop{noAddress}, nil, "x: it has no address (InternalIP) of IPv4")
	expect("at first", []hop{at("b", "10.244.1.0/24", b.String()), at("older", "10.244.2.0/24", c.String())},
		map[wgtypes.Key]string{b: end + " b 10.244.1.0/24", c: end + " older 10.244.2.0/24"})
	// An older node says another's key: that one keeps it, in each order.
	for range 2 {
		hops := []hop{at("older", "10.244.2.0/24", b.String()), at("b", "10.244.1.0/24", b.String())}
		expect("another's key", hops, map[wgtypes.Key]string{b: end + " b 10.244.1.0/24"}, "older: its public key is that of node b")
		slices.Reverse(hops)
		expect("another's key", hops, map[wgtypes.Key]string{b: end + " b 10.244.1.0/24"}, "older: its public key is that of node b")
	}
	// A node changes its key.
	expect("another key", []hop{at("b", "10.244.1.0/24", c.String())}, map[wgtypes.Key]string{c: end + " b 10.244.1.0/24"})
}

// TestDifference: only what differs is written, a peer that went is removed, and one that answers from elsewhere stays there.
func TestDifference(t *testing.T) {
	own, b, c := newKey(t), newKey(t).PublicKey(), newKey(t).PublicKey()
	l := &linux{cfg: Config{Backend: WireGuard, Port: 51820}, secure: secure{key: own}}
	to := hop{node: "b", to: netip.MustParsePrefix("10.244.1.0/24")}
	want := map[wgtypes.Key]*peer{b: {key: b, at: netip.MustParseAddrPort("192.0.2.11:51820"), hops: []hop{to}}}
	first := l.difference(&wgtypes.Device{}, want)
	if first.PrivateKey == nil || *first.PrivateKey != own || *first.ListenPort != 51820 || len(first.Peers) != 1 || first.Peers[0].Endpoint.String() != "192.0.2.11:51820" ||
		!first.Peers[0].ReplaceAllowedIPs || first.Peers[0].AllowedIPs[0].String() != "10.244.1.0/24" {
		t.Errorf("%+v", first)
	}
	l.secure.ends = map[wgtypes.Key]netip.AddrPort{b: want[b].at}
	roamed := wgtypes.Peer{PublicKey: b, Endpoint: &net.UDPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 1}, AllowedIPs: first.Peers[0].AllowedIPs}
	device := &wgtypes.Device{PrivateKey: own, ListenPort: 51820, Peers: []wgtypes.Peer{roamed}}
	if same := l.difference(device, want); same.PrivateKey != nil || same.ListenPort != nil || len(same.Peers) != 0 {
		t.Errorf("without a difference: %+v", same)
	}
	want[b].at = netip.MustParseAddrPort("192.0.2.99:51820")
	if moved := l.difference(device, want); len(moved.Peers) != 1 || moved.Peers[0].Endpoint.String() != "192.0.2.99:51820" {
		t.Errorf("another address: %+v", moved)
	}
	l.secure.ends[b] = want[b].at
	device.Peers[0].AllowedIPs = append(device.Peers[0].AllowedIPs, *netOf(netip.MustParsePrefix("0.0.0.0/0")))
	device.Peers = append(device.Peers, wgtypes.Peer{PublicKey: c})
	change := l.difference(device, want)
	if len(change.Peers) != 2 || change.Peers[0].PublicKey != c || !change.Peers[0].Remove || change.Peers[1].Endpoint != nil || len(change.Peers[1].AllowedIPs) != 1 {
		t.Errorf("somebody changed peers: %+v", change)
	}
}

// hasWireGuard says whether the kernel makes such an interface for the test itself.
func (s *space) hasWireGuard() bool {
	trial := &netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: "trial"}}
	if s.handle.LinkAdd(trial) != nil {
		return false
	}
	s.must(s.handle.LinkDel(trial))
	return true
}

// TestWithoutWireGuard: a kernel that has none is named at the start, and nothing is left.
func TestWithoutWireGuard(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	if a.hasWireGuard() {
		t.Log("this machine's kernel has WireGuard: TestWireGuard tests it")
		return
	}
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	_, err := a.process().Start(t.Context(), network.Options{
		Name: Name, Config: []byte(`{"backend": "wireguard"}`), NodeIPs: []string{"192.0.2.10"}, PodCIDRs: a.own, ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/56"},
		StateDirectory: a.state, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err == nil || !strings.Contains(err.Error(), "this machine's kernel has no WireGuard") || !strings.Contains(err.Error(), "choose another backend") {
		t.Error(err)
	}
	a.untouched("without WireGuard")
}

// opened is the machine of a host, on which no start was.
func (h *host) opened(c Config) *linux {
	h.t.Helper()
	l, err := h.process().open(c, options{cluster: cluster{
		node: []netip.Addr{netip.MustParseAddr("192.0.2.10")}, own: prefixes(h.own...), all: prefixes("10.244.0.0/16", "fd00:244::/56"),
	}, state: h.state})
	h.must(err)
	h.t.Cleanup(l.close)
	return l
}

// TestTakenBack: a start that fails at last takes back all that it made, and nothing that an earlier run left.
func TestTakenBack(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	if !a.hasWireGuard() {
		t.Skip("this machine's kernel has no WireGuard")
	}
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	begin := func() *linux {
		l := a.opened(Config{Backend: WireGuard, Port: 51820})
		a.must(l.forward())
		a.must(l.encrypt())
		return l
	}
	a.must(begin().takeBack())
	a.untouched("the first start")
	begin()
	link := a.link(secureName).Attrs().Index
	a.must(begin().takeBack())
	if now := a.link(secureName).Attrs().Index; now != link || a.tables() != 2 || len(a.routes6()) != 1 {
		t.Errorf("what an earlier run left: interface %d, was %d; %d tables, %q", now, link, a.tables(), a.routes6())
	}
	if left, err := os.ReadDir(a.state); err != nil || len(left) != 4 {
		t.Errorf("files of an earlier run: %v, %v", left, err)
	}
}

// TestShut: what another backend left goes before the first nodes are known: by its routes pods would send in plain.
func TestShut(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	eth := a.link("eth0").Attrs().Index
	plain := func(to string, link int, by netlink.RouteProtocol) {
		t.Helper()
		a.must(a.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix(to)), LinkIndex: link, Protocol: by, Scope: unix.RT_SCOPE_LINK}))
	}
	plain("10.244.1.0/24", eth, protocol)
	plain("fd00:244:0:1::/64", eth, protocol)
	plain("10.244.77.0/24", eth, 3) // another's
	a.must(a.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "secure"}}))
	a.up("secure")
	plain("10.244.2.0/24", a.link("secure").Attrs().Index, protocol) // of an earlier run that encrypted
	// The kernel of the test may have no VXLAN.
	a.must(a.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: tunnelName}}))
	l := a.opened(Config{Backend: WireGuard})
	for range 2 {
		a.must(l.shut(a.link("secure").Attrs().Index))
		list, err := a.handle.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, 0)
		a.must(whole(err))
		var got []string
		for _, r := range list {
			if r.Protocol == protocol || r.Protocol == 3 {
				got = append(got, fmt.Sprint(r.Dst, " ", r.Type == unix.RTN_UNREACHABLE))
			}
		}
		slices.Sort(got)
		if want := []string{"10.244.0.0/16 true", "10.244.2.0/24 false", "10.244.77.0/24 false", "fd00:244::/56 true"}; !slices.Equal(got, want) {
			t.Errorf("routes %q, want %q", got, want)
		}
		if _, err := a.handle.LinkByName(tunnelName); err == nil {
			t.Error("the tunnel of another backend stays")
		}
	}
}

// TestChangeOfBackend: a start with wireguard closes what a start with host-gw opened, though no node is known yet.
func TestChangeOfBackend(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	if !a.hasWireGuard() {
		t.Skip("this machine's kernel has no WireGuard")
	}
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	a.addresses, b.addresses = []string{"192.0.2.10"}, []string{"192.0.2.11"}
	a.begin(`{"backend": "host-gw"}`, b)
	a.expect(t, "host-gw", "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90")
	a.must(a.n.Stop(context.Background(), false))
	n := a.process()
	_, err := n.Start(t.Context(), network.Options{
		Name: Name, Config: []byte(`{"backend": "wireguard"}`), NodeIPs: a.addresses, PodCIDRs: a.own, ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/56"},
		StateDirectory: a.state, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	a.must(err)
	a.expect(t, "wireguard")
	a.must(n.Stop(context.Background(), true))
	a.untouched("a stop")
}

// TestKeyOfFormerBackend: a start with another backend deletes the private key, and what a broken-off write
// left of it.
func TestKeyOfFormerBackend(t *testing.T) {
	a, b := newHost(t, 0), newHost(t, 1)
	cable(a.space, "eth0", "192.0.2.10/24", b.space, "eth0", "192.0.2.11/24")
	a.addresses, b.addresses = []string{"192.0.2.10"}, []string{"192.0.2.11"}
	if err := os.MkdirAll(a.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ownKey(a.state); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(a.state, keyFile+unfinished), []byte("part"), 0o600); err != nil {
		t.Fatal(err)
	}
	a.begin(`{"backend": "host-gw"}`, b)
	a.expect(t, "host-gw", "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90")
	if left, err := filepath.Glob(filepath.Join(a.state, keyFile+"*")); err != nil || len(left) > 0 {
		t.Errorf("of the key is left: %q, %v", left, err)
	}
	a.must(a.n.Stop(context.Background(), true))
}

// TestClosed: ranges of the cluster are closed in each family that the machine has, though this node's pods have no address of it.
func TestClosed(t *testing.T) {
	s := &linux{proc: t.TempDir(), options: options{cluster: cluster{own: prefixes("10.244.0.0/24"), all: prefixes("10.244.0.0/16", "10.244.0.0/24", "fd00:244::/56")}}}
	expect := func(want ...netip.Prefix) {
		t.Helper()
		got := slices.SortedFunc(maps.Keys(s.closed()), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		if !slices.Equal(got, want) {
			t.Errorf("closed %v, want %v", got, want)
		}
	}
	expect(s.options.all[0])
	if err := os.MkdirAll(filepath.Join(s.proc, forwardSwitch6), 0o755); err != nil {
		t.Fatal(err)
	}
	expect(s.options.all[0], s.options.all[2])
}

// TestKeyAfterRestart: an older node that says another's key does not get it after a restart either: the peer has the other's range.
func TestKeyAfterRestart(t *testing.T) {
	own, key := newKey(t), newKey(t).PublicKey()
	at := func(node, to string) hop {
		return hop{node: node, to: netip.MustParsePrefix(to), far: netip.MustParseAddr("192.0.2.11"), key: key.String()}
	}
	older, b := at("older", "10.244.2.0/24"), at("b", "10.244.1.0/24")
	for name, tt := range map[string]struct {
		ranges []string
		hops   []hop
		want   string
	}{
		"the owner's range":       {[]string{"fd00:244:0:1::/64", "10.244.1.0/24"}, []hop{older, b}, "b"},
		"another key's range":     {nil, []hop{older, b}, "older"},
		"a range of neither":      {[]string{"10.244.3.0/24"}, []hop{older, b}, "older"},
		"the owner has a new key": {[]string{"10.244.1.0/24"}, []hop{older, {node: "b", to: b.to, far: b.far, key: newKey(t).PublicKey().String()}}, "older"},
	} {
		l := &linux{cfg: Config{Backend: WireGuard, Port: 51820}, secure: secure{key: own}}
		l.options.node = []netip.Addr{netip.MustParseAddr("192.0.2.10")}
		left := wgtypes.Peer{PublicKey: key}
		for _, text := range tt.ranges {
			left.AllowedIPs = append(left.AllowedIPs, *netOf(netip.MustParsePrefix(text)))
		}
		l.remember([]wgtypes.Peer{left}, tt.hops)
		peers, _ := l.peers(tt.hops)
		if p := peers[key]; p == nil || p.hops[0].node != tt.want || l.secure.owners[key] != tt.want {
			t.Errorf("%s: %+v, owners %v; want %s", name, p, l.secure.owners, tt.want)
		}
	}
}

// TestPosesAsPod: what a neighbour sends in the name of another node's pod does not come to pods, but through the tunnel it does.
func TestPosesAsPod(t *testing.T) {
	a, neighbour := newHost(t, 0), newSpace(t)
	cable(a.space, "eth0", "192.0.2.10/24", neighbour, "eth0", "192.0.2.66/24")
	cable(a.space, secureName, "192.0.2.129/25", neighbour, "tunnel", "192.0.2.130/25")
	// Each link has addresses of a stranger and of another node's pod.
	sources := map[string][2]string{"eth0": {"2001:db8:1::2", "fd00:244:0:1::2"}, "tunnel": {"2001:db8:2::2", "fd00:244:0:2::2"}}
	for _, list := range sources {
		for _, source := range list {
			neighbour.ipv6("lo", source+"/128")
		}
	}
	var pod net.PacketConn
	a.must(a.pod.do(func() (err error) {
		pod, err = net.ListenPacket("udp", net.JoinHostPort(a.podIPv6, "0"))
		return err
	}))
	defer pod.Close()
	// via sends to the pod over a link, in the name of another node's pod and of a stranger, and returns whose packets come. The
	// stranger's is the later one: what has not come before it does not come.
	via := func(link, end string, i int) (got []string) {
		t.Helper()
		gateway, back := fmt.Sprintf("2001:db8:9:%d::1", i), fmt.Sprintf("2001:db8:9:%d::2", i)
		a.must(a.handle.RouteReplace(&netlink.Route{Dst: netOf(netip.MustParsePrefix("::/0")), Gw: net.ParseIP(back), LinkIndex: a.link(end).Attrs().Index}))
		neighbour.must(neighbour.handle.RouteReplace(&netlink.Route{Dst: netOf(netip.MustParsePrefix(a.own[1])), Gw: net.ParseIP(gateway), LinkIndex: neighbour.link(link).Attrs().Index}))
		for _, source := range []string{sources[link][1], sources[link][0]} {
			neighbour.must(neighbour.do(func() error {
				dialer := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(source)}}
				conn, err := dialer.Dial("udp", pod.LocalAddr().String())
				if err != nil {
					return err
				}
				_, err = conn.Write([]byte("x"))
				return errors.Join(err, conn.Close())
			}))
		}
		a.must(pod.SetReadDeadline(time.Now().Add(2 * time.Minute)))
		for {
			_, from, err := pod.ReadFrom(make([]byte, 8))
			if err != nil {
				t.Fatalf("over %s came %q: %v", link, got, err)
			}
			host, _, _ := net.SplitHostPort(from.String())
			if got = append(got, host); host == sources[link][0] {
				return got
			}
		}
	}
	for i, link := range []string{"eth0", "tunnel"} {
		end := map[string]string{"eth0": "eth0", "tunnel": secureName}[link]
		a.ipv6(end, fmt.Sprintf("2001:db8:9:%d::1/64", i))
		neighbour.ipv6(link, fmt.Sprintf("2001:db8:9:%d::2/64", i))
	}
	l := a.opened(Config{Backend: HostGW})
	expect := func(when, link string, i int, want ...string) {
		t.Helper()
		end := map[string]string{"eth0": "eth0", "tunnel": secureName}[link]
		if got := via(link, end, i); !slices.Equal(got, want) {
			t.Errorf("%s, over %s: packets of %q, want %q", when, link, got, want)
		}
	}
	a.must(l.table(nil))
	expect("host-gw", "eth0", 0, sources["eth0"][1], sources["eth0"][0])
	l = a.opened(Config{Backend: WireGuard})
	a.must(l.table(nil))
	expect("wireguard", "eth0", 0, sources["eth0"][0])
	expect("wireguard", "tunnel", 1, sources["tunnel"][1], sources["tunnel"][0])
	changes := a.changes()
	a.must(l.table(nil))
	if now := a.changes(); now != changes {
		t.Errorf("a table that is as it should be is written again: %d transactions", now-changes)
	}
}

// device is the interface as the kernel has it.
func (h *host) device() (device *wgtypes.Device) {
	h.t.Helper()
	h.must(h.do(func() error {
		client, err := wgctrl.New()
		if err != nil {
			return err
		}
		defer client.Close()
		device, err = client.Device(secureName)
		return err
	}))
	return device
}

// TestWireGuard: pods of nodes that a router is between reach each other by both families, and all that passes the router is
// encrypted. A node that is not known, has no key or went is not reached at all.
func TestWireGuard(t *testing.T) {
	router := newSpace(t)
	if !router.hasWireGuard() {
		t.Skip("this machine's kernel has no WireGuard")
	}
	router.forwards()
	hosts := [2]*host{newHost(t, 0), newHost(t, 1)}
	for i, h := range hosts {
		h.addresses = []string{fmt.Sprintf("198.51.%d.2", 100+i)}
		cable(h.space, "eth0", h.addresses[0]+"/24", router, fmt.Sprintf("to%d", i), fmt.Sprintf("198.51.%d.1/24", 100+i))
		h.gateway(fmt.Sprintf("198.51.%d.1", 100+i))
	}
	a, b := hosts[0], hosts[1]
	const config = `{"backend": "wireguard", "checkInterval": "1s"}`
	generation := map[*host]uint64{}
	knows := func(h *host, others ...*network.Node) {
		t.Helper()
		generation[h]++
		h.must(h.n.Apply(t.Context(), &network.Diff{Generation: generation[h] + 1, Reset_: true, Set: others}))
	}
	// A route of another to the same range stays.
	a.must(a.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix("10.244.0.0/16")), Type: unix.RTN_UNREACHABLE, Priority: 7}))
	a.begin(config)
	b.begin(config)
	closed := func(when string) {
		t.Helper()
		for _, to := range []string{b.podIPv4, b.podIPv6} {
			if err := a.pod.do(func() error {
				conn, err := net.DialTimeout("tcp", net.JoinHostPort(to, "1"), time.Minute)
				if err == nil {
					_ = conn.Close()
				}
				return err
			}); err == nil || !strings.Contains(err.Error(), "unreachable") && !strings.Contains(err.Error(), "no route") {
				t.Errorf("%s: %s: %v", when, to, err)
			}
		}
	}
	closed("a node that is not known")
	if a.key == "" || a.key == b.key {
		t.Fatalf("keys %q, %q", a.key, b.key)
	}
	without := b.node()
	without.PublicKey = ""
	knows(a, without)
	closed("a node without a key")
	if st := a.n.Status(); len(st.Refused) != 2 || !strings.Contains(st.Refused[0].GetReason(), "has no public key yet") {
		t.Errorf("refused %v", st.Refused)
	}
	// All that passes the router is of the two ports of the tunnel.
	plain := router.plainPackets(t)
	knows(a, b.node())
	knows(b, a.node())
	reachEachOther(t, a, b)
	a.reaches(t, b.pod, b.podIPv4, "10.244.0.0")
	a.reaches(t, b.pod, b.podIPv6, "fd00:244::")
	if n := plain(); n != 0 {
		t.Errorf("%d packets passed the router outside of the tunnel", n)
	}
	if mtu := a.link(secureName).Attrs().MTU; mtu != 1440 {
		t.Errorf("MTU %d, want 1440", mtu)
	}
	if d := a.device(); len(d.Peers) != 1 || d.Peers[0].PublicKey.String() != b.key || len(d.Peers[0].AllowedIPs) != 2 || d.ListenPort != 51820 || d.PublicKey.String() != a.key {
		t.Errorf("peers %+v", d.Peers)
	}
	// Mended, though somebody deletes the interface.
	a.must(a.handle.LinkDel(a.link(secureName)))
	eventually(t, func() error {
		if _, err := a.handle.LinkByName(secureName); err != nil {
			return err
		}
		if got := a.routes6(); len(got) < 2 {
			return fmt.Errorf("routes of IPv6 %q", got)
		}
		return nil
	})
	reachEachOther(t, a, b)
	// Another key: the former peer goes.
	former := b.key
	b.must(b.n.Stop(context.Background(), true))
	b.begin(config, a)
	if b.key == former {
		t.Fatal("a stop with cleanup leaves the key")
	}
	knows(a, b.node())
	reachEachOther(t, a, b)
	if d := a.device(); len(d.Peers) != 1 || d.Peers[0].PublicKey.String() != b.key {
		t.Errorf("peers after another key: %+v", d.Peers)
	}
	// A restart keeps the key.
	kept := b.key
	b.must(b.n.Stop(context.Background(), false))
	b.begin(config, a)
	if b.key != kept {
		t.Error("a restart has another key")
	}
	reachEachOther(t, a, b)
	// An older node that says a's key does not get it after a restart of b.
	older := &host{name: "aaa", addresses: []string{"198.51.100.66"}, own: []string{"10.244.9.0/24"}}
	knows(b, older.node(), a.node())
	older.key = a.key
	b.must(b.n.Stop(context.Background(), false))
	b.begin(config, older, a)
	if d := b.device(); len(d.Peers) != 1 || len(d.Peers[0].AllowedIPs) != 2 || d.Peers[0].Endpoint.IP.String() != a.addresses[0] {
		t.Errorf("peers after an older node said another's key: %+v", d.Peers)
	}
	if st := b.n.Status(); len(st.Refused) != 1 || st.Refused[0].GetReason() != "its public key is that of node host-0" {
		t.Errorf("refused %v", st.Refused)
	}
	reachEachOther(t, a, b)
	knows(a)
	if d := a.device(); len(d.Peers) != 0 {
		t.Errorf("peers after the node went: %+v", d.Peers)
	}
	closed("a node that went")
	for _, h := range hosts {
		h.must(h.n.Stop(context.Background(), true))
		if _, err := h.handle.LinkByName(secureName); err == nil || h.tables() != 0 || len(h.routes6()) != 0 {
			t.Errorf("a stop leaves the interface (%v), %d tables, %q", err, h.tables(), h.routes6())
		}
		left, err := h.handle.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Dst: netOf(netip.MustParsePrefix("10.244.0.0/16"))}, netlink.RT_FILTER_DST)
		if want := map[*host]int{a: 1}[h]; whole(err) != nil || len(left) != want {
			t.Errorf("a stop leaves the routes %v, %v; want %d", left, err, want)
		}
		if left, err := os.ReadDir(h.state); err != nil || len(left) > 0 {
			t.Errorf("a stop leaves %v, %v", left, err)
		}
	}
}

// plainPackets counts what a router sees of packets that are none of WireGuard: of IP, and neither UDP with its port nor of the
// neighbourhood.
func (s *space) plainPackets(t *testing.T) func() int {
	t.Helper()
	var socket int
	s.must(s.do(func() (err error) {
		const all = unix.ETH_P_ALL&0xff<<8 | unix.ETH_P_ALL>>8
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, all); err != nil {
			return err
		}
		return unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}))
	t.Cleanup(func() { _ = unix.Close(socket) })
	return func() (plain int) {
		packet := make([]byte, 2048)
		secure := 0
		for {
			n, _, err := unix.Recvfrom(socket, packet, 0)
			if err != nil {
				break
			}
			switch p := packet[:n]; {
			case n < 28 || p[0]>>4 != 4: // ARP, and what IPv6 says of itself on a link
				if n >= 40 && p[0]>>4 == 6 && p[6] != unix.IPPROTO_ICMPV6 && p[6] != 0 {
					plain++
				}
			case p[9] == unix.IPPROTO_UDP && int(p[22])<<8+int(p[23]) == 51820:
				secure++
			default:
				plain++
			}
		}
		if secure == 0 {
			t.Error("no packet of the tunnel passed the router")
		}
		return plain
	}
}
