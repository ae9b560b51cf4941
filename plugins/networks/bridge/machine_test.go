package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/network"
)

// space is a network namespace of a test.
type space struct {
	t      *testing.T
	fd     netns.NsHandle
	handle *netlink.Handle
	// proc has the kernel's switches, state is what the plugin remembers.
	proc, state string
}

func newSpace(t *testing.T) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	made := make(chan netns.NsHandle)
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := netns.New()
		if err != nil {
			failed <- err
			return
		}
		made <- fd
	}()
	s := &space{t: t, proc: t.TempDir(), state: t.TempDir()}
	s.must(os.MkdirAll(filepath.Join(s.proc, "net/ipv4"), 0o755))
	s.must(os.WriteFile(filepath.Join(s.proc, forwardSwitch), []byte("0\n"), 0o600))
	select {
	case s.fd = <-made:
	case err := <-failed:
		t.Skipf("this machine makes no network namespaces: %v", err)
	}
	var err error
	if s.handle, err = netlink.NewHandleAt(s.fd, unix.NETLINK_ROUTE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.handle.Close(); _ = s.fd.Close() })
	s.up("lo")
	return s
}

// do runs f on a thread of the namespace.
func (s *space) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(s.fd); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

func (s *space) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *space) link(name string) netlink.Link {
	s.t.Helper()
	l, err := s.handle.LinkByName(name)
	s.must(err)
	return l
}

func (s *space) up(name string, addresses ...string) {
	s.t.Helper()
	l := s.link(name)
	for _, a := range addresses {
		addr, err := netlink.ParseAddr(a)
		s.must(err)
		s.must(s.handle.AddrAdd(l, addr))
	}
	s.must(s.handle.LinkSetUp(l))
}

// cable joins two namespaces.
func cable(a *space, nameA, addressA string, b *space, nameB, addressB string) {
	a.t.Helper()
	a.must(a.handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: nameA}, PeerName: nameB, PeerNamespace: netlink.NsFd(b.fd)}))
	a.up(nameA, addressA)
	b.up(nameB, addressB)
}

// needsVXLAN skips a test where the kernel makes no tunnel for the test itself. What the plugin cannot do
// elsewhere is a fault.
func (s *space) needsVXLAN(t *testing.T) {
	t.Helper()
	trial := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "trial"}, VxlanId: 4242, Port: 4242}
	if err := s.handle.LinkAdd(trial); err != nil {
		t.Skipf("this machine's kernel has no VXLAN: %v", err)
	}
	s.must(s.handle.LinkDel(trial))
}

// forwards has a namespace forward packets, with the strictest filter of sources.
func (s *space) forwards() {
	s.t.Helper()
	s.must(s.do(func() error {
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0))
	}))
}

// gateway gives a namespace a default route.
func (s *space) gateway(via string) {
	s.t.Helper()
	s.must(s.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix("0.0.0.0/0")), Gw: net.ParseIP(via)}))
}

// process is a network of the namespace that is not started.
func (s *space) process() *Network {
	n := New()
	n.open = func(c Config, o options) (*linux, error) {
		handle, err := netlink.NewHandleAt(s.fd, unix.NETLINK_ROUTE)
		return &linux{cfg: c, options: o, handle: handle, space: int(s.fd), proc: s.proc}, err
	}
	return n
}

// started is a network of the namespace; own is its range and address its node's.
func (s *space) started(config, own, address string) (*Network, network.Pods, error) {
	s.t.Helper()
	n := s.process()
	pods, err := n.Start(s.t.Context(), network.Options{
		Name: Name, NodeName: "a", Config: []byte(config), NodeIPs: []string{address}, PodCIDRs: []string{own}, ClusterCIDRs: []string{"10.244.0.0/16"},
		ServiceCIDRs: []string{"10.96.0.0/16"}, StateDirectory: s.state, Logger: slog.New(slog.NewTextHandler(s.t.Output(), nil)),
	})
	if err == nil {
		s.t.Cleanup(func() { _ = n.Stop(context.Background(), true) })
		if got, err := os.ReadFile(filepath.Join(s.proc, forwardSwitch)); err != nil || string(got) != "1" {
			s.t.Errorf("ip_forward is %q, %v", got, err)
		}
		s.t.Cleanup(func() {
			_ = n.Stop(context.Background(), true)
			if got, err := os.ReadFile(filepath.Join(s.proc, forwardSwitch)); err != nil || string(got) != "0" {
				s.t.Errorf("after a stop ip_forward is %q, %v; want what it was", got, err)
			}
		})
	}
	return n, pods, err
}

// routes are the namespace's to ranges of pods, as text, in order.
func (s *space) routes() []string {
	s.t.Helper()
	list, err := s.handle.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{}, 0)
	s.must(whole(err))
	out := []string{}
	for _, r := range list {
		if r.Dst != nil && strings.HasPrefix(r.Dst.String(), "10.244.") && r.Gw != nil {
			l, err := s.handle.LinkByIndex(r.LinkIndex)
			s.must(err)
			out = append(out, fmt.Sprintf("%s via %s dev %s proto %d", r.Dst, r.Gw, l.Attrs().Name, r.Protocol))
		}
	}
	slices.Sort(out)
	return out
}

// eventually waits for what the plugin does by itself.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	limit := time.Now().Add(2 * time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *space) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := s.routes(); !slices.Equal(got, want) {
		t.Errorf("%s: routes %q, want %q", when, got, want)
	}
}

// TestRoutes: routes over one link come, change and go with nodes, and come back after they are
// deleted. Routes of others stay.
func TestRoutes(t *testing.T) {
	s, other := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", other, "eth0", "192.0.2.11/24")
	s.must(s.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "pods"}}))
	s.up("pods", "10.244.0.1/24") // the pods' bridge of an earlier start
	s.must(s.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix("10.244.77.0/24")), Gw: net.ParseIP("192.0.2.77"), LinkIndex: s.link("eth0").Attrs().Index}))
	const theirs = "10.244.77.0/24 via 192.0.2.77 dev eth0 proto 3"
	n, pods, err := s.started(`{"checkInterval": "1s"}`, "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	if pods.MTU != 1500 || pods.CNIConfigurations != "" {
		t.Errorf("%+v", pods)
	}
	if st := n.Status(); st.Ready {
		t.Errorf("before the nodes are known: %+v", st)
	}
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{
		member("b", "192.0.2.11", "10.244.1.0/24"), member("c", "192.0.2.12", "10.244.2.0/24"), member("d", "198.51.100.7", "10.244.3.0/24"), member("mine", "192.0.2.13", "10.244.77.0/24"),
	}}))
	b, c := "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90", "10.244.2.0/24 via 192.0.2.12 dev eth0 proto 90"
	s.expect(t, "at first", b, c, theirs)
	st := n.Status()
	if !st.Ready || st.Generation != 1 || len(st.Refused) != 2 || !strings.Contains(st.Message, "2 of 4") {
		t.Errorf("status %+v", st)
	}
	for name, want := range map[string]string{"d": "there is no way to its address 198.51.100.7", "mine": "overlaps 10.244.77.0/24 of this machine (a route over interface eth0)"} {
		if !slices.ContainsFunc(st.Refused, func(r *network.Refusal) bool { return r.GetNode() == name && strings.Contains(r.GetReason(), want) }) {
			t.Errorf("%s: refused %v", name, st.Refused)
		}
	}
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 2, Set: []*network.Node{member("b", "192.0.2.99", "10.244.1.0/24")}, Removed: []string{"mine"}}))
	b = "10.244.1.0/24 via 192.0.2.99 dev eth0 proto 90"
	s.expect(t, "another address", b, c, theirs)
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 3, Set: []*network.Node{member("c", "192.0.2.12", "10.244.9.0/24")}}))
	c = "10.244.9.0/24 via 192.0.2.12 dev eth0 proto 90"
	s.expect(t, "another range", b, theirs, c)
	// Deleted by hand, and a wrong one put in its place.
	s.must(s.handle.RouteDel(&netlink.Route{Dst: netOf(netip.MustParsePrefix("10.244.1.0/24")), Protocol: protocol}))
	s.must(s.handle.RouteReplace(&netlink.Route{Dst: netOf(netip.MustParsePrefix("10.244.9.0/24")), Gw: net.ParseIP("192.0.2.66"), LinkIndex: s.link("eth0").Attrs().Index, Protocol: protocol}))
	eventually(t, func() error {
		if got := s.routes(); !slices.Equal(got, []string{b, theirs, c}) {
			return fmt.Errorf("routes are not mended: %q", got)
		}
		return nil
	})
	// A cable that is out takes the routes with it; they are back with it.
	eth := s.link("eth0")
	s.must(s.handle.LinkSetDown(eth))
	s.must(s.handle.LinkSetUp(eth))
	eventually(t, func() error {
		if got := s.routes(); !slices.Contains(got, b) || !slices.Contains(got, c) {
			return fmt.Errorf("after the cable was out: %q", got)
		}
		return nil
	})
	s.must(n.Stop(t.Context(), false))
	if got := s.routes(); !slices.Contains(got, b) || !slices.Contains(got, c) {
		t.Errorf("a stop that keeps the network: %q", got)
	}
	// The next start knows no node, and keeps what there is until it does.
	n, _, err = s.started(`{"checkInterval": "1s"}`, "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	if got := s.routes(); !slices.Contains(got, b) {
		t.Errorf("a start: %q", got)
	}
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{member("c", "192.0.2.12", "10.244.9.0/24")}}))
	if got := s.routes(); slices.Contains(got, b) || !slices.Contains(got, c) {
		t.Errorf("a node went meanwhile: %q", got)
	}
	s.must(n.Stop(t.Context(), true))
	for _, r := range s.routes() {
		if strings.HasSuffix(r, "proto 90") {
			t.Errorf("after a stop there is %s", r)
		}
	}
	if s.tables() != 0 {
		t.Error("after a stop there is an nftables table")
	}
}

// TestFormer: what a run left is removed by a process in which the network was not started, as when
// the node uses another network now. What others made stays, and so does what pods need.
func TestFormer(t *testing.T) {
	s, router := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", router, "eth0", "192.0.2.1/24")
	s.gateway("192.0.2.1")
	s.must(s.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix("10.244.77.0/24")), Gw: net.ParseIP("192.0.2.77"), LinkIndex: s.link("eth0").Attrs().Index}))
	s.masquerades("10.244.0.0/24")
	const theirs = "10.244.77.0/24 via 192.0.2.77 dev eth0 proto 3"
	const config, own, address = `{"checkInterval": "1s"}`, "10.244.0.0/24", "192.0.2.10"
	s.must(s.process().Stop(t.Context(), true)) // there is nothing to remove
	s.needsVXLAN(t)
	n, _, err := s.started(config, own, address)
	s.must(err)
	far := member("far", "203.0.113.2", "10.244.2.0/24")
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{member("b", "192.0.2.11", "10.244.1.0/24"), far}}))
	if st := n.Status(); len(st.Refused) > 0 {
		t.Fatalf("refused: %v", st.Refused)
	}
	s.must(n.Stop(t.Context(), false))
	left := []string{"10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90", "10.244.2.0/24 via 10.244.2.0 dev pintle-vxlan proto 90", theirs}
	s.must(s.process().Stop(t.Context(), false))
	s.expect(t, "a stop that keeps the network", left...)
	if s.tables() != 1 {
		t.Errorf("a stop that keeps the network left %d tables, want 1", s.tables())
	}
	s.must(s.process().Stop(t.Context(), true))
	s.expect(t, "after the removal", theirs)
	if _, err := s.handle.LinkByName(tunnelName); err == nil {
		t.Error("after the removal there is a tunnel")
	}
	if s.tables() != 0 {
		t.Errorf("after the removal there are %d tables", s.tables())
	}
	s.must(s.do(func() error {
		c, err := nft.New(nft.WithNetNSFd(int(s.fd)))
		if err != nil {
			return err
		}
		_, err = c.ListTableOfFamily("of-another", nft.TableFamilyIPv4)
		return err
	}))
	if got, err := os.ReadFile(filepath.Join(s.proc, forwardSwitch)); err != nil || string(got) != "1" {
		t.Errorf("after the removal ip_forward is %q, %v; pods that go on need it", got, err)
	}
	// A later run that ends with cleanup restores the switch; started checks it.
	_, _, err = s.started(config, own, address)
	s.must(err)
}

// tables counts those of the plugin.
func (s *space) tables() (count int) {
	s.t.Helper()
	c, err := nft.New(nft.WithNetNSFd(int(s.fd)))
	s.must(err)
	list, err := c.ListTables()
	s.must(err)
	for _, found := range list {
		if found.Name == tableName {
			count++
		}
	}
	return count
}

// TestStartRefuses: a range that is a network of the machine is refused at the start, by name.
func TestStartRefuses(t *testing.T) {
	s, other := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", other, "eth0", "192.0.2.11/24")
	cable(s, "lab0", "10.244.0.200/16", other, "lab0", "10.244.0.201/16")
	if _, _, err := s.started(``, "10.244.0.0/24", "192.0.2.10"); err == nil || !strings.Contains(err.Error(), "10.244.0.0/24 of this node overlaps the network 10.244.0.0/16 of interface lab0") {
		t.Error(err)
	}
	if s.tables() != 0 || len(s.routes()) != 0 {
		t.Errorf("it left %d tables, routes %q", s.tables(), s.routes())
	}
}

// TestBehindRouter: nodes that a router is between are refused by host-gw, and reached through the
// tunnel else. Packets of who is no node do not pass.
func TestBehindRouter(t *testing.T) {
	router, stranger := newSpace(t), newSpace(t)
	router.forwards()
	type host struct {
		*space
		n       *Network
		address string
		own     string
		pod     *space
	}
	hosts := [2]*host{}
	for i := range hosts {
		h := &host{space: newSpace(t), address: fmt.Sprintf("198.51.%d.2", 100+i), own: fmt.Sprintf("10.244.%d.0/24", i), pod: newSpace(t)}
		hosts[i] = h
		cable(h.space, "eth0", h.address+"/24", router, fmt.Sprintf("to%d", i), fmt.Sprintf("198.51.%d.1/24", 100+i))
		h.gateway(fmt.Sprintf("198.51.%d.1", 100+i))
		h.forwards()
		h.must(h.handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "pods"}}))
		h.up("pods", fmt.Sprintf("10.244.%d.1/24", i))
		h.must(h.handle.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth0", MasterIndex: h.link("pods").Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.pod.fd)}))
		h.up("veth0")
		h.pod.up("eth0", fmt.Sprintf("10.244.%d.2/24", i))
		h.pod.gateway(fmt.Sprintf("10.244.%d.1", i))
		h.masquerades(h.own)
	}
	cable(stranger, "eth0", "203.0.113.2/24", router, "stranger", "203.0.113.1/24")
	stranger.gateway("203.0.113.1")
	a, b := hosts[0], hosts[1]
	other := func(h *host) *network.Node {
		if h == a {
			return member("b", b.address, b.own)
		}
		return member("a", a.address, a.own)
	}
	n, _, err := a.started(`{"backend": "host-gw"}`, a.own, a.address)
	a.must(err)
	a.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{other(a)}}))
	if st := n.Status(); len(st.Refused) != 1 || !strings.Contains(st.Refused[0].GetReason(), "is behind a router") {
		t.Errorf("host-gw: %+v", st)
	}
	a.expect(t, "host-gw")
	a.must(n.Stop(t.Context(), true))

	for _, backend := range []string{VXLAN, Auto} {
		t.Run(backend, func(t *testing.T) {
			a.needsVXLAN(t)
			for _, h := range hosts {
				var pods network.Pods
				h.n, pods, err = h.started(`{"checkInterval": "1s", "backend": "`+backend+`"}`, h.own, h.address)
				h.must(err)
				if want := map[string]int{VXLAN: 1450, Auto: 1500}[backend]; pods.MTU != want {
					t.Errorf("MTU %d, want %d", pods.MTU, want)
				}
				h.must(h.n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{other(h)}}))
			}
			a.expect(t, "with the tunnel", "10.244.1.0/24 via 10.244.1.0 dev pintle-vxlan proto 90")
			// Pods see each other's addresses, though their machines masquerade what leaves
			// them. What is larger than the tunnel takes arrives.
			a.pod.reaches(t, b.pod, "10.244.1.2", "10.244.0.2")
			b.pod.reaches(t, a.pod, "10.244.0.2", "10.244.1.2")
			// The machine itself reaches pods, and is seen by the tunnel's address.
			a.reaches(t, b.pod, "10.244.1.2", "10.244.0.0")
			t.Run("healed", func(t *testing.T) {
				a.must(a.handle.LinkDel(a.link(tunnelName)))
				a.flush()
				eventually(t, func() error {
					if _, err := a.handle.LinkByName(tunnelName); err != nil {
						return err
					}
					if a.tables() == 0 {
						return errors.New("the table is not there")
					}
					return nil
				})
				eventually(t, func() error {
					if got := a.routes(); len(got) != 1 {
						return fmt.Errorf("routes %q", got)
					}
					return nil
				})
				a.pod.reaches(t, b.pod, "10.244.1.2", "10.244.0.2")
			})
			t.Run("a stranger", func(t *testing.T) { a.strange(t, stranger, a.space, b.space) })
			// Its machine gives its packets the node's address.
			t.Run("a pod of the node", func(t *testing.T) { a.strange(t, b.pod, b.space, b.space) })
			t.Run("another address", func(t *testing.T) {
				a.must(a.n.Apply(t.Context(), &network.Diff{Generation: 2, Set: []*network.Node{member("b", "203.0.113.2", b.own)}}))
				list, err := a.handle.NeighList(a.link(tunnelName).Attrs().Index, unix.AF_BRIDGE)
				a.must(whole(err))
				var at []string
				for _, e := range list {
					if e.State&netlink.NUD_PERMANENT != 0 && e.IP != nil {
						at = append(at, e.IP.String())
					}
				}
				if !slices.Equal(at, []string{"203.0.113.2"}) {
					t.Errorf("the tunnel leads to %q", at)
				}
			})
			for _, h := range hosts {
				h.must(h.n.Apply(t.Context(), &network.Diff{Generation: 3, Reset_: true}))
				if _, err := h.handle.LinkByName(tunnelName); err == nil {
					t.Error("without nodes there is a tunnel")
				}
				h.must(h.n.Stop(t.Context(), true))
				h.expect(t, "after a stop")
				if h.tables() != 0 {
					t.Error("after a stop there is a table")
				}
			}
		})
	}
}

// TestOlderNodeClaimsLater: routes of a node stay when a Node that registered before claims its range,
// also after a restart.
func TestOlderNodeClaimsLater(t *testing.T) {
	s, other := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", other, "eth0", "192.0.2.11/24")
	older, victim := member("older", "192.0.2.66"), member("victim", "192.0.2.11", "10.244.1.0/24")
	older.Created, victim.Created = 1, 2
	n, _, err := s.started("", "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{older, victim}}))
	const route = "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90"
	s.expect(t, "at first", route)
	refused := func(when string) {
		t.Helper()
		s.expect(t, when, route)
		if st := n.Status(); len(st.Refused) != 1 || st.Refused[0].GetNode() != "older" || !strings.Contains(st.Refused[0].GetReason(), "overlaps 10.244.1.0/24 of node victim, which had it before") {
			t.Errorf("%s: refused %v", when, st.Refused)
		}
	}
	older.PodCidrs = victim.PodCidrs
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 2, Set: []*network.Node{older}}))
	refused("an older node claims it")
	s.must(n.Stop(t.Context(), false))
	n, _, err = s.started("", "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{older, victim}}))
	refused("after a restart")
	s.must(n.Stop(t.Context(), true))
	if left, err := os.ReadDir(s.state); err != nil || len(left) > 0 {
		t.Errorf("after a stop with cleanup there is %v, %v", left, err)
	}
}

// TestRangesAreWrittenLater: what could not be written, such as on a full disk, is written by a later check,
// though nothing changed.
func TestRangesAreWrittenLater(t *testing.T) {
	s, other := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", other, "eth0", "192.0.2.11/24")
	n, _, err := s.started(`{"checkInterval": "1s"}`, "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	file := filepath.Join(s.state, holdersFile)
	s.must(os.Mkdir(file, 0o700)) // no file takes its place
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{member("b", "192.0.2.11", "10.244.1.0/24")}}))
	s.expect(t, "without the file", "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90")
	s.must(os.Remove(file))
	eventually(t, func() error {
		kept, err := readHolders(s.state)
		if err == nil && kept.of[netip.MustParsePrefix("10.244.1.0/24")] != "b" {
			err = fmt.Errorf("the file has %v", kept.of)
		}
		return err
	})
}

// nftables is a connection to the namespace's.
func (s *space) nftables() *nft.Conn {
	s.t.Helper()
	c, err := nft.New(nft.WithNetNSFd(int(s.fd)))
	s.must(err)
	return c
}

// changes is how many transactions of nftables there have been.
func (s *space) changes() uint32 {
	s.t.Helper()
	g, err := s.nftables().GetGen()
	s.must(err)
	return g.ID
}

// ownTable is the plugin's.
var ownTable = &nft.Table{Name: tableName, Family: nft.TableFamilyIPv4}

// senders are the addresses from which the tunnel takes packets.
func (s *space) senders() (out []string) {
	s.t.Helper()
	list, err := s.nftables().GetSetElements(&nft.Set{Table: ownTable, Name: sendersSet, KeyType: nft.TypeIPAddr})
	s.must(err)
	for _, e := range list {
		out = append(out, net.IP(e.Key).String())
	}
	slices.Sort(out)
	return out
}

// TestSenders: the tunnel takes packets of the nodes of now, after a change and after a restart. What is
// as it should be is not written again, and a change is one transaction.
func TestSenders(t *testing.T) {
	s, router := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", router, "eth0", "192.0.2.1/24")
	s.gateway("192.0.2.1")
	s.needsVXLAN(t)
	start := func(config string) *Network {
		t.Helper()
		n, _, err := s.started(config, "10.244.0.0/24", "192.0.2.10")
		s.must(err)
		return n
	}
	const quiet = `{"checkInterval": "1h"}` // Apply alone makes changes
	n := start(quiet)
	far := func(addresses ...string) (list []*network.Node) {
		for i, a := range addresses {
			list = append(list, member(fmt.Sprintf("far%d", i), a, fmt.Sprintf("10.244.%d.0/24", 2+i)))
		}
		return list
	}
	generation := uint64(0)
	expect := func(when string, transactions uint32, want ...string) {
		t.Helper()
		before := s.changes()
		generation++
		s.must(n.Apply(t.Context(), &network.Diff{Generation: generation, Reset_: true, Set: far(want...)}))
		if st := n.Status(); len(st.Refused) > 0 {
			t.Fatalf("%s: refused: %v", when, st.Refused)
		}
		if got := s.senders(); !slices.Equal(got, want) {
			t.Errorf("%s: the tunnel takes packets of %q, want %q", when, got, want)
		}
		if got := s.changes() - before; got != transactions {
			t.Errorf("%s: %d transactions, want %d", when, got, transactions)
		}
	}
	expect("at first", 1, "203.0.113.2", "203.0.113.3")
	mark := &nft.Chain{Name: "mark", Table: ownTable}
	marked := func() bool {
		t.Helper()
		list, err := s.nftables().ListChainsOfTableFamily(nft.TableFamilyIPv4)
		s.must(err)
		return slices.ContainsFunc(list, func(c *nft.Chain) bool { return c.Name == mark.Name })
	}
	by := s.nftables()
	by.AddChain(mark) // it is there as long as the table is not made anew
	s.must(by.Flush())
	expect("the same again", 0, "203.0.113.2", "203.0.113.3")
	expect("another address", 1, "203.0.113.2", "203.0.113.9")
	forge := func() {
		t.Helper()
		by := s.nftables()
		set := &nft.Set{Table: ownTable, Name: sendersSet, KeyType: nft.TypeIPAddr}
		s.must(by.SetAddElements(set, []nft.SetElement{{Key: net.ParseIP("203.0.113.66").To4()}}))
		s.must(by.SetDeleteElements(set, []nft.SetElement{{Key: net.ParseIP("203.0.113.2").To4()}}))
		s.must(by.Flush())
	}
	forge()
	expect("changed by hand", 1, "203.0.113.2", "203.0.113.9")
	s.must(n.Stop(t.Context(), false))
	forge()
	n = start(quiet)
	expect("a restart with a stale sender", 1, "203.0.113.2", "203.0.113.9")
	s.must(n.Stop(t.Context(), false))
	n = start(quiet)
	expect("a restart without a change", 0, "203.0.113.2", "203.0.113.9")
	if !marked() {
		t.Error("the table was made anew, though its rules are the same")
	}
	s.must(n.Stop(t.Context(), false))
	n = start(`{"checkInterval": "1h", "port": 4789}`)
	expect("a restart with another port", 1, "203.0.113.2", "203.0.113.9")
	if marked() {
		t.Error("the port changed, and the rules did not")
	}
	// A rule of others in the place of one of the plugin's.
	by = s.nftables()
	tunnel := &nft.Chain{Name: tunnelChain, Table: ownTable}
	by.FlushChain(tunnel)
	by.AddRule(&nft.Rule{Table: ownTable, Chain: tunnel, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}})
	s.must(by.Flush())
	expect("another rule", 1, "203.0.113.2", "203.0.113.9")
}

// TestNoTunnel: where there can be no tunnel, nodes on the link are reached, come and go. With the backend
// vxlan that is an error.
func TestNoTunnel(t *testing.T) {
	s, router := newSpace(t), newSpace(t)
	cable(s, "eth0", "192.0.2.10/24", router, "eth0", "192.0.2.1/24")
	s.gateway("192.0.2.1")
	leftOver := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "flannel.1"}, VxlanId: 1, Port: 8472, VtepDevIndex: s.link("eth0").Attrs().Index}
	s.needsVXLAN(t)
	s.must(s.handle.LinkAdd(leftOver))
	// The kernel takes no gateway by a route of this scope.
	s.must(s.handle.RouteAdd(&netlink.Route{Dst: netOf(netip.MustParsePrefix("198.51.100.9/32")), LinkIndex: s.link("eth0").Attrs().Index, Scope: netlink.SCOPE_UNIVERSE}))
	b, far, odd := member("b", "192.0.2.11", "10.244.1.0/24"), member("far", "203.0.113.2", "10.244.2.0/24"), member("odd", "198.51.100.9", "10.244.3.0/24")
	toB, toFar := "10.244.1.0/24 via 192.0.2.11 dev eth0 proto 90", "10.244.2.0/24 via 10.244.2.0 dev pintle-vxlan proto 90"
	n, _, err := s.started(`{"checkInterval": "1s"}`, "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{b, far, odd}}))
	s.expect(t, "without a tunnel", toB)
	st := n.Status()
	if !st.Ready || len(st.Refused) != 2 || !strings.Contains(st.Message, "1 of 3") {
		t.Errorf("status %+v", st)
	}
	for name, want := range map[string]string{"far": "make interface pintle-vxlan", "odd": "could not create route to 10.244.3.0/24 by 198.51.100.9"} {
		if !slices.ContainsFunc(st.Refused, func(r *network.Refusal) bool { return r.GetNode() == name && strings.Contains(r.GetReason(), want) }) {
			t.Errorf("%s: refused %v", name, st.Refused)
		}
	}
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 2, Removed: []string{"b", "odd"}}))
	s.expect(t, "the node on the link went")
	s.must(s.handle.LinkDel(leftOver))
	s.must(n.Apply(t.Context(), &network.Diff{Generation: 3, Set: []*network.Node{b}}))
	s.expect(t, "with a tunnel", toB, toFar)
	// An address that no tunnel of IPv4 leads to.
	l := n.running.linux
	n.running.turn.Lock()
	refused, err := l.forwarding(s.link(tunnelName).Attrs().Index, []hop{{node: "six", to: netip.MustParsePrefix("10.244.6.0/24"), far: netip.MustParseAddr("fd01::1"), end: netip.MustParsePrefix("10.244.6.0/24")}})
	if err != nil || len(refused) != 1 || refused[0].GetNode() != "six" {
		t.Errorf("a neighbour that the kernel refuses: %v, %v", refused, err)
	}
	// Without the table no tunnel.
	space := l.space
	l.space = 1 << 30
	n.running.turn.Unlock()
	if err := n.Apply(t.Context(), &network.Diff{Generation: 4}); err == nil || n.Status().Ready {
		t.Errorf("without a table: %v, %+v", err, n.Status())
	}
	if _, err := s.handle.LinkByName(tunnelName); err == nil {
		t.Error("without a table there is a tunnel")
	}
	s.expect(t, "without a table", toB)
	n.running.turn.Lock()
	l.space = space
	n.running.turn.Unlock()
	s.must(n.Stop(t.Context(), true))

	s.must(s.handle.LinkAdd(leftOver))
	n, _, err = s.started(`{"checkInterval": "1s", "backend": "vxlan"}`, "10.244.0.0/24", "192.0.2.10")
	s.must(err)
	if err := n.Apply(t.Context(), &network.Diff{Generation: 1, Reset_: true, Set: []*network.Node{far}}); err == nil || n.Status().Ready {
		t.Errorf("%s: %v, %+v", VXLAN, err, n.Status())
	}
}

// masquerades has a namespace give what leaves a range its own address, as CNI's bridge does.
func (s *space) masquerades(own string) {
	s.t.Helper()
	family := tableFamily(netip.MustParsePrefix(own).Addr().Is4())
	c, err := nft.New(nft.WithNetNSFd(int(s.fd)))
	s.must(err)
	p := netip.MustParsePrefix(own)
	table := c.AddTable(&nft.Table{Name: "of-another", Family: family})
	chain := c.AddChain(&nft.Chain{Name: "out", Table: table, Type: nft.ChainTypeNAT, Hooknum: nft.ChainHookPostrouting, Priority: nft.ChainPriorityNATSource})
	c.AddRule(&nft.Rule{Table: table, Chain: chain, Exprs: append(append(matches(p, true, expr.CmpOpEq), matches(p, false, expr.CmpOpNeq)...), &expr.Masq{})})
	s.must(c.Flush())
}

// flush deletes the plugin's table, as an operator could by hand.
func (s *space) flush() {
	s.t.Helper()
	c, err := nft.New(nft.WithNetNSFd(int(s.fd)))
	s.must(err)
	c.DelTable(&nft.Table{Name: tableName, Family: nft.TableFamilyIPv4})
	s.must(c.Flush())
}

// reaches sends more than fits a packet from a namespace to another, which says from whom it came.
func (s *space) reaches(t *testing.T, to *space, address, as string) {
	t.Helper()
	var listener net.Listener
	to.must(to.do(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	}))
	defer listener.Close()
	payload := strings.Repeat("x", 100_000)
	got := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		data, err := io.ReadAll(conn)
		from, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		// Closed before it says so: no packet of it comes later.
		got <- fmt.Sprintf("%d bytes from %s, %v", len(data), from, errors.Join(err, conn.Close()))
	}()
	to.must(s.do(func() error {
		conn, err := (&net.Dialer{Timeout: 2 * time.Minute}).Dial("tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		_, err = io.WriteString(conn, payload)
		return errors.Join(err, conn.Close())
	}))
	if text, want := <-got, fmt.Sprintf("%d bytes from %s, <nil>", len(payload), as); text != want {
		t.Errorf("%s is reached by %s, want %s", address, text, want)
	}
}

// strange has one who is no node send what looks like a node's packet of the tunnel: the tunnel does
// not take it. From the node it takes the same. The sender's packet is seen at a machine on its way.
func (s *space) strange(t *testing.T, sender, seen, node *space) {
	t.Helper()
	passed, received := seen.counts(sender), s.frames()
	// VXLAN with its number 1, then an Ethernet frame to the tunnel's end with an empty packet of IPv4.
	frame := append([]byte{0x08, 0, 0, 0, 0, 0, 1, 0}, hardware(netip.MustParsePrefix("10.244.0.0/24"))...)
	frame = append(frame, hardware(netip.MustParsePrefix("10.244.1.0/24"))...)
	frame = append(frame, 0x08, 0x00, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0x63, 0x02, 10, 244, 1, 2, 10, 244, 0, 2)
	send := func(from *space) {
		from.must(from.do(func() error {
			conn, err := net.Dial("udp4", "198.51.100.2:8472")
			if err != nil {
				return err
			}
			_, err = conn.Write(frame)
			return errors.Join(err, conn.Close())
		}))
	}
	atFirst, before := passed(), received()
	send(sender)
	eventually(t, func() error {
		if passed() == atFirst {
			return errors.New("the packet of who is no node was not sent")
		}
		return nil
	})
	if got := received(); got != before {
		t.Errorf("%d packets of who is no node came through the tunnel", got-before)
	}
	send(node)
	eventually(t, func() error {
		if received() == before {
			return errors.New("the node's packet did not come through the tunnel")
		}
		return nil
	})
	if got := received(); got != before+1 {
		t.Errorf("%d packets came through the tunnel, want the node's alone", got-before)
	}
}

// frames returns how many packets of strange have come out of the tunnel: those of the IP protocol
// 253, which is for experiments.
func (s *space) frames() func() uint64 {
	return s.counter("count-frames", append(matches(netip.MustParsePrefix("10.244.1.2/32"), true, expr.CmpOpEq),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register}, &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{253}}))
}

// counts returns how many packets have come from another namespace's address to the tunnel's port.
func (s *space) counts(from *space) func() uint64 {
	s.t.Helper()
	list, err := from.handle.AddrList(from.link("eth0"), netlink.FAMILY_V4)
	s.must(whole(err))
	address := netip.PrefixFrom(netip.MustParseAddr(list[0].IP.String()), 32)
	return s.counter("count-"+address.Addr().String(), append(matches(address, true, expr.CmpOpEq), toPort(8472)...))
}

// counter returns how many packets that match have come, before the plugin's chains drop any.
func (s *space) counter(name string, match []expr.Any) func() uint64 {
	s.t.Helper()
	c, err := nft.New(nft.WithNetNSFd(int(s.fd)))
	s.must(err)
	table := c.AddTable(&nft.Table{Name: name, Family: nft.TableFamilyIPv4})
	c.DelTable(table) // an earlier counter's
	c.AddTable(table)
	chain := c.AddChain(&nft.Chain{Name: "in", Table: table, Type: nft.ChainTypeFilter, Hooknum: nft.ChainHookPrerouting, Priority: nft.ChainPriorityRaw})
	c.AddRule(&nft.Rule{Table: table, Chain: chain, Exprs: append(match, &expr.Counter{})})
	s.must(c.Flush())
	return func() uint64 {
		rules, err := c.GetRules(table, chain)
		s.must(err)
		for _, e := range rules[0].Exprs {
			if counter, ok := e.(*expr.Counter); ok {
				return counter.Packets
			}
		}
		return 0
	}
}
