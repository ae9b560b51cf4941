package podnat

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// machine is a network namespace.
type machine struct{ file *os.File }

// onThread runs f on a thread of its own, which ends with it: nobody else has its namespace.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make network namespaces")
	}
	m := &machine{}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		m.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	t.Cleanup(func() { m.file.Close() })
	return m
}

// do runs f in the namespace. Sockets that it opens stay there.
func (m *machine) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(m.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

func (m *machine) must(t *testing.T, f func() error) {
	t.Helper()
	if err := m.do(f); err != nil {
		t.Fatal(err)
	}
}

// set writes a switch of the namespace: /proc/sys shows that of the thread.
func (m *machine) set(t *testing.T, name, value string) {
	t.Helper()
	m.must(t, func() error { return os.WriteFile("/proc/sys/"+name, []byte(value), 0) })
}

// up gives an interface of the namespace addresses, and starts it.
func up(name string, addresses ...string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	for _, text := range addresses {
		a, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if a.IP.To4() == nil {
			a.Flags = unix.IFA_F_NODAD
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("%s of %s: %w", text, name, err)
		}
	}
	return netlink.LinkSetUp(link)
}

// route leads to a range; empty: everywhere.
func route(to, by string) error {
	r := &netlink.Route{Gw: net.ParseIP(by)}
	if to != "" {
		_, r.Dst, _ = net.ParseCIDR(to)
	}
	return netlink.RouteAdd(r)
}

// Addresses of the tests.
const (
	bridge     = "pods0"
	nodeIP     = "198.51.100.1"
	secondIP   = "198.51.100.9"
	outsideIP  = "198.51.100.2"
	remotePod  = "10.244.1.5" // of another node
	podRange   = "10.244.0.0/24"
	ipA, ipB   = "10.244.0.2", "10.244.0.3"
	ipC        = "10.244.0.4"
	nodeIP6    = "2001:db8:100::1"
	outsideIP6 = "2001:db8:100::2"
)

// cluster is a node with three pods on a bridge, and a machine outside that also has a pod of
// another node.
type cluster struct {
	node, outside *machine
	pods          map[string]*machine // by address
	ports         HostPorts
}

func lay(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{node: newMachine(t), outside: newMachine(t), pods: map[string]*machine{}}
	c.ports = HostPorts{Bridge: bridge, Directory: t.TempDir()}
	for what, err := range map[string]error{
		"nftables": c.node.do(func() error { _, err := Generation(); return err }),
		"tracked flows": c.node.do(func() error {
			_, err := conntrack.Delete(conntrack.IPv4, func(conntrack.Flow) bool { return false })
			return err
		}),
		"a bridge, veth": c.node.do(func() error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}}) }),
	} {
		if err != nil {
			t.Skipf("this kernel has no %s: %v", what, err)
		}
	}
	for name, value := range map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"} {
		c.node.set(t, name, value)
	}
	c.node.must(t, func() error {
		b := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}
		if err := netlink.LinkAdd(b); err != nil {
			return err
		}
		if err := up(bridge, "10.244.0.1/24", "fd00:244::1/64"); err != nil {
			return err
		}
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "out0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(c.outside.file.Fd())}); err != nil {
			return err
		}
		if err := up("lo"); err != nil {
			return err
		}
		if err := up("out0", nodeIP+"/24", secondIP+"/24", nodeIP6+"/64"); err != nil {
			return err
		}
		return route("10.244.1.0/24", outsideIP)
	})
	c.outside.must(t, func() error {
		if err := up("lo", remotePod+"/32"); err != nil {
			return err
		}
		if err := up("eth0", outsideIP+"/24", outsideIP6+"/64"); err != nil {
			return err
		}
		return route("10.244.0.0/24", nodeIP)
	})
	for i, ip := range []string{ipA, ipB, ipC} {
		pod := newMachine(t)
		c.pods[ip] = pod
		c.node.must(t, func() error {
			b, err := netlink.LinkByName(bridge)
			if err != nil {
				return err
			}
			name := fmt.Sprint("pod", i)
			v := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MasterIndex: b.Attrs().Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(pod.file.Fd())}
			if err := netlink.LinkAdd(v); err != nil {
				return err
			}
			if err := netlink.LinkSetHairpin(v, true); err != nil {
				return err
			}
			return netlink.LinkSetUp(v)
		})
		pod.must(t, func() error {
			if ip != ipC { // where lo is down, 127.0.0.0/8 can be routed
				if err := up("lo"); err != nil {
					return err
				}
			}
			if err := up("eth0", ip+"/24", fmt.Sprintf("fd00:244::%d/64", i+2)); err != nil {
				return err
			}
			if err := route("", "10.244.0.1"); err != nil {
				return err
			}
			return route("::/0", "fd00:244::1")
		})
	}
	return c
}

// serve answers at TCP and UDP port 8080 of a machine with a name and the address that asks.
func serve(t *testing.T, m *machine, name, address string, port int) {
	t.Helper()
	at := net.JoinHostPort(address, fmt.Sprint(port))
	var l net.Listener
	var p net.PacketConn
	m.must(t, func() (err error) {
		if l, err = net.Listen("tcp", at); err != nil {
			return err
		}
		p, err = net.ListenPacket("udp", at)
		return err
	})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(c, "%s %s", name, host(c.RemoteAddr()))
			c.Close()
		}
	})
	group.Go(func() {
		b := make([]byte, 16)
		for {
			_, from, err := p.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = p.WriteTo(fmt.Appendf(nil, "%s %s", name, host(from)), from)
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.Close()
		group.Wait()
	})
}

func host(a net.Addr) string {
	h, _, _ := net.SplitHostPort(a.String())
	return h
}

const (
	// patience bounds the wait for an answer that is expected.
	patience = 2 * time.Minute
	// silence is how long no answer counts as none, where none is expected.
	silence = 300 * time.Millisecond
)

// ask is the answer at an address, empty for none within limit.
func (m *machine) ask(network, address string, limit time.Duration) string {
	var answer string
	_ = m.do(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		defer c.Close()
		answer = exchange(c, limit)
		return nil
	})
	return answer
}

func exchange(c net.Conn, limit time.Duration) string {
	_ = c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte("?")); err != nil && !strings.Contains(err.Error(), "reset") {
		return ""
	}
	b := make([]byte, 200)
	n, _ := c.Read(b)
	return string(b[:n])
}

// answers checks who answers, and to whom; an empty want: nobody does. What is expected is
// asked for until it comes.
func (m *machine) answers(t *testing.T, what, network, address, want string) {
	t.Helper()
	if want == "" {
		if got := m.ask(network, address, silence); got != "" {
			t.Errorf("%s: %s %s: answered by %q; nobody shall", what, network, address, got)
		}
		return
	}
	var got string
	for begun, wait := time.Now(), time.Second; time.Since(begun) < patience; wait = min(2*wait, 20*time.Second) {
		if got = m.ask(network, address, wait); got == want {
			return
		} else if got != "" {
			break
		}
	}
	t.Errorf("%s: %s %s: answered by %q, want %q", what, network, address, got, want)
}

// association is the first packet of SCTP: a header and a chunk INIT.
func association(tag uint32, port uint16) []byte {
	b := make([]byte, 32)
	binary.BigEndian.PutUint16(b[0:], 40000)
	binary.BigEndian.PutUint16(b[2:], port)
	b[12] = 1
	binary.BigEndian.PutUint16(b[14:], 20)
	binary.BigEndian.PutUint32(b[16:], tag)
	binary.BigEndian.PutUint32(b[20:], 65536)
	binary.BigEndian.PutUint16(b[24:], 1)
	binary.BigEndian.PutUint16(b[26:], 1)
	binary.BigEndian.PutUint32(b[28:], tag)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// port is a host port of a test; at: its host IP.
func port(number uint16, protocol, at string) Port {
	p := Port{HostPort: number, ContainerPort: 8080, Protocol: protocol}
	if at != "" {
		p.HostIP = netip.MustParseAddr(at)
	}
	return p
}

// sandbox is one of a test, with its second address as lay gives it.
func sandbox(id, ip string, ports ...Port) Sandbox {
	last := ip[strings.LastIndexByte(ip, '.')+1:]
	return Sandbox{ID: id, Interface: "eth0", Ports: ports, Addresses: []netip.Prefix{netip.MustParsePrefix(ip + "/24"), netip.MustParsePrefix("fd00:244::" + last + "/64")}}
}

func (c *cluster) add(t *testing.T, s Sandbox) {
	t.Helper()
	c.node.must(t, func() error { return c.ports.Add(s) })
}

func (c *cluster) remove(t *testing.T, id string) {
	t.Helper()
	c.node.must(t, func() error { return c.ports.Remove(id, "eth0") })
}

// tables are the names of the node's.
func (c *cluster) tables(t *testing.T) []string {
	t.Helper()
	var names []string
	c.node.must(t, func() error {
		conn, err := nft.New()
		if err != nil {
			return err
		}
		list, err := conn.ListTables()
		for _, l := range list {
			names = append(names, l.Name)
		}
		return err
	})
	return names
}

func (c *cluster) generation(t *testing.T) (g uint32) {
	t.Helper()
	c.node.must(t, func() (err error) {
		g, err = Generation()
		return err
	})
	return g
}
