package truth

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Outside is the name of a host that is no node.
const Outside = "outside"

// Field is a node with pods x and y of each namespace on a bridge, those of another node
// behind a second one, and a machine outside.
type Field struct {
	Node  *Host
	Hosts map[string]*Host
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Lay makes the field in network namespaces of its own.
func Lay(t testing.TB) *Field {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	f := &Field{Hosts: map[string]*Host{}}
	f.Node = host(t)
	if err := f.Node.Do(func() error {
		for name, value := range map[string]string{
			"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1", "ipv6/conf/default/accept_dad": "0", "ipv6/conf/all/accept_dad": "0",
			"bridge/bridge-nf-call-iptables": "1", "bridge/bridge-nf-call-ip6tables": "1",
		} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Skipf("this machine does not forward packets of bridges through rules: %v", err)
	}
	handle := At(t, f.Node)
	gateways := map[string][]string{"pods": {"10.244.1.1/24", "fd00:1::1/64"}, "far": {"10.244.2.1/24", "fd00:2::1/64"}, "world": {"192.0.2.254/24", "2001:db8::fffe/64"}}
	links := map[string]netlink.Link{}
	for name, addresses := range gateways {
		links[name] = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
		must(t, handle.LinkAdd(links[name]))
		give(t, handle, links[name], addresses...)
	}
	join := func(name, bridge string, addresses ...string) {
		h := host(t)
		f.Hosts[name] = h
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("to", len(f.Hosts)), MasterIndex: links[bridge].Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.Fd())}
		must(t, handle.LinkAdd(veth))
		must(t, handle.LinkSetUp(veth))
		inner := At(t, h)
		lo, err := inner.LinkByName("lo")
		must(t, err)
		must(t, inner.LinkSetUp(lo))
		eth, err := inner.LinkByName("eth0")
		must(t, err)
		give(t, inner, eth, addresses...)
		for _, gateway := range gateways[bridge] {
			ip, _, _ := net.ParseCIDR(gateway)
			must(t, inner.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: ip}))
		}
	}
	for _, ns := range Names {
		for _, pod := range Names {
			name, bridge := ns+"/"+pod, "pods"
			if pod == "z" {
				bridge = "far"
			}
			join(name, bridge, Address(name, program.IP4).String()+"/24", Address(name, program.IP6).String()+"/64")
		}
	}
	join(Outside, "world", "192.0.2.1/24", "2001:db8::1/64")
	for _, h := range f.Hosts {
		must(t, h.Serve([]program.Family{program.IP4, program.IP6}, 80, 81, 82))
	}
	return f
}

func host(t testing.TB) *Host {
	t.Helper()
	h, err := NewHost()
	if err != nil {
		t.Skipf("this machine gives no network namespaces: %v", err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// At is a way to the interfaces of a host.
func At(t testing.TB, h *Host) *netlink.Handle {
	t.Helper()
	handle, err := netlink.NewHandleAt(netns.NsHandle(h.Fd()))
	must(t, err)
	t.Cleanup(handle.Close)
	return handle
}

func give(t testing.TB, h *netlink.Handle, link netlink.Link, addresses ...string) {
	t.Helper()
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		must(t, err)
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		must(t, h.AddrAdd(link, a))
	}
	must(t, h.LinkSetUp(link))
}

// address is that of a host of the field.
func address(name string, family program.Family) netip.Addr {
	switch {
	case name != Outside:
		return Address(name, family)
	case family == program.IP6:
		return netip.MustParseAddr("2001:db8::1")
	}
	return netip.MustParseAddr("192.0.2.1")
}

// asks are connections between all hosts, with what is said of them.
func (f *Field) asks(c *program.Cluster, families ...program.Family) []Ask {
	var list []Ask
	for from := range f.Hosts {
		for to := range f.Hosts {
			for _, family := range families {
				for _, p := range []Packet{{Protocol: program.TCP, Port: 80}, {Protocol: program.TCP, Port: 81}, {Protocol: program.UDP, Port: 80}, {Protocol: program.UDP, Port: 81}, {Protocol: program.SCTP, Port: 80}, {Protocol: program.SCTP, Port: 81}} {
					p.Source, p.Destination = address(from, family), address(to, family)
					list = append(list, Ask{From: from, To: to, Packet: p, Want: Allowed(c, p)})
				}
			}
		}
	}
	return list
}

// Holds checks what the machine lets pass against what policies allow.
func (f *Field) Holds(t testing.TB, name string, c *program.Cluster, families ...program.Family) {
	t.Helper()
	asks := f.asks(c, families...)
	if wrong := Matrix(t.Context(), f.Hosts, asks); len(wrong) > 0 {
		t.Errorf("%s: %d of %d connections are wrong:\n%s", name, len(wrong), len(asks), strings.Join(wrong[:min(len(wrong), 20)], "\n"))
	}
}
