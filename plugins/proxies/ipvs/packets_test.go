package ipvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/packets"
	"pintle.dev/pintle/sdk/proxy"
)

// The tests of this file need a kernel with IPVS: make test-vm.

// onNode starts the proxy in a network namespace of its own, on a node without others; nil in the
// process that waits for it. What it leaves is looked for at the end.
func onNode(t *testing.T, config string) *Proxy {
	t.Helper()
	if !packets.Inside(t) {
		return nil
	}
	packets.Alone(t)
	p := New()
	if err := p.Probe(t.Context(), []byte(config)); err != nil {
		t.Skipf("this machine cannot run the proxy: %v", err)
	}
	if err := p.Start(t.Context(), proxy.Options{
		NodeName: "n", NodeIPs: []string{"10.244.0.2", "fd00:244::2"}, ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/64"},
		ServiceCIDRs: []string{"10.96.0.0/16", "fd00:96::/112"}, StateDirectory: t.TempDir(), Config: []byte(config), Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
		clean(t)
	})
	return p
}

// clean checks that the machine has nothing of the proxy.
func clean(t *testing.T) {
	t.Helper()
	b, err := openIPVS()
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	h := host{tables: &kernelTables{}, device: dummy{}}
	for _, f := range []*family{ipv4, ipv6} {
		if list, err := b.list(f); err != nil || len(list) > 0 {
			t.Errorf("virtual servers are left: %v, %v", list, err)
		}
		if there, err := h.tables.remove(f); there || err != nil {
			t.Errorf("a table of %s is left: %t, %v", f.name, there, err)
		}
	}
	if there, err := h.device.remove(); there || err != nil {
		t.Errorf("the device is left: %t, %v", there, err)
	}
	if data, err := os.ReadFile("/proc/sys/net/ipv4/vs/expire_nodest_conn"); err != nil || strings.TrimSpace(string(data)) != "0" {
		t.Errorf("expire_nodest_conn is %q, %v", data, err)
	}
}

// answering listens at port 8080 of an address and says the address to each client that comes. With
// lasting it goes on to say what the client says.
func answering(t *testing.T, ip string, lasting bool) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "8080"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, ip+"\n")
			if lasting {
				go func() { io.Copy(conn, conn); conn.Close() }() // ends with the connection
				continue
			}
			conn.Close()
		}
	}()
}

// reach is what answers at an address, or that it is refused.
func reach(address string) string {
	conn, err := net.DialTimeout("tcp", address, time.Minute)
	if errors.Is(err, unix.ECONNREFUSED) {
		return "refused"
	}
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	line := make([]byte, 64)
	n, err := conn.Read(line)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(line[:n]))
}

func nodePort(s *proxy.Service) { s.Ports[0].NodePort = 30080 }

const bothIPs = "10.96.0.10 fd00:96::10"

// TestKernel: endpoints that are this node's own, in both families; no other port of this node
// is reached by an address of a service; what others do is mended; a second start finds it all.
func TestKernel(t *testing.T) {
	p := onNode(t, quiet)
	if p == nil {
		return
	}
	for _, ip := range []string{"10.244.0.2", "fd00:244::2"} {
		answering(t, ip, false)
	}
	l, err := net.Listen("tcp", ":9999") // of all addresses
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := func(when string) {
		t.Helper()
		for address, want := range map[string]string{
			"10.96.0.10:80": "10.244.0.2", "[fd00:96::10]:80": "fd00:244::2", "10.244.0.2:30080": "10.244.0.2", "[fd00:244::3]:30080": "fd00:244::2",
			"10.96.0.10:9999": "refused", "[fd00:96::10]:9999": "refused", "10.96.0.10:8080": "refused",
		} {
			if got := reach(address); got != want {
				t.Errorf("%s: %s: %s, want %s", when, address, got, want)
			}
		}
	}
	apply(t, p, service(web, bothIPs, "TCP", nodePort), endpoints(web, "TCP", "10.244.0.2*", "fd00:244::2*"))
	asked("at first")
	at := server{front: front{netip.MustParseAddr("10.96.0.10"), unix.IPPROTO_TCP, 80}}
	to := netip.MustParseAddrPort("10.244.0.2:8080")
	for what, harm := range map[string]func() error{
		"a virtual server":   func() error { return p.host.balancer.remove(ipv4, at) },
		"a real server":      func() error { return p.host.balancer.removeReal(ipv4, at, to) },
		"a weight":           func() error { return p.host.balancer.setReal(ipv4, at, to, 0, false) },
		"the scheduler":      func() error { return p.host.balancer.set(ipv4, at, virtual{scheduler: "sh"}, false) },
		"an address":         func() error { return p.host.device.unbind(at.address) },
		"the device":         func() error { _, err := p.host.device.remove(); return err },
		"a table, IPv4":      func() error { _, err := (&kernelTables{}).remove(ipv4); return err },
		"a table, IPv6":      func() error { _, err := (&kernelTables{}).remove(ipv6); return err },
		"an element and all": func() error { return (&kernelTables{}).commit(ipv4, settings{}, transaction{rebuild: true}) },
	} {
		if err := harm(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		p.check(t.Context())
		asked("after harm to " + what)
		for _, s := range p.sides {
			has, whole, err := p.host.tables.read(s.f)
			if want := s.has.to(has); err != nil || !whole || !want.empty() {
				t.Errorf("after harm to %s: the table of %s is whole %t, %v, %v", what, s.f.name, whole, want, err)
			}
		}
	}
	generation, err := p.host.tables.generation()
	if err != nil {
		t.Fatal(err)
	}
	p.check(t.Context())
	if now, err := p.host.tables.generation(); err != nil || now != generation {
		t.Errorf("a period in which nothing was harmed wrote tables: generation %d, then %d (%v)", generation, now, err)
	}
	apply(t, p, endpoints(web, "TCP"))
	for _, address := range []string{"10.96.0.10:80", "[fd00:96::10]:80", "10.244.0.2:30080"} {
		if got := reach(address); got != "refused" {
			t.Errorf("without endpoints %s: %s", address, got)
		}
	}
	apply(t, p, serviceRemove(web)...)
	if got := reach("10.244.0.2:30080"); got != "refused" {
		t.Errorf("without the service: %s", got)
	}
	if list, err := p.host.balancer.list(ipv4); err != nil || len(list) > 0 {
		t.Errorf("servers %v, %v", list, err)
	}
}

// TestSchedulers: the kernel takes each scheduler of kube-proxy, with and without affinity.
func TestSchedulers(t *testing.T) {
	p := onNode(t, quiet)
	if p == nil {
		return
	}
	for _, ip := range []string{"10.244.0.2", "10.244.0.3"} {
		answering(t, ip, false)
	}
	for _, scheduler := range schedulers {
		config := fmt.Sprintf(`{"healthzBindAddress":"","scheduler":%q}`, scheduler)
		if scheduler == "twos" {
			continue // Debian's kernel does not have it
		}
		p.cfg.Scheduler = scheduler
		if err := New().Probe(t.Context(), []byte(config)); err != nil {
			t.Errorf("%s: %v", scheduler, err)
		}
		apply(t, p, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.0.2*", "10.244.0.3*"))
		list, err := p.host.balancer.list(ipv4)
		at := server{front: front{netip.MustParseAddr("10.96.0.10"), unix.IPPROTO_TCP, 80}}
		if err != nil || list[at].scheduler != scheduler {
			t.Errorf("%s: the kernel has %v, %v", scheduler, list, err)
		}
		if got := reach("10.96.0.10:80"); !strings.HasPrefix(got, "10.244.0.") {
			t.Errorf("%s: %s", scheduler, got)
		}
	}
	err := New().Probe(t.Context(), []byte(`{"healthzBindAddress":"","scheduler":"twos"}`))
	if err == nil || !strings.Contains(err.Error(), "ip_vs_twos") {
		t.Errorf("a scheduler that the kernel lacks: %v", err)
	}
}

// TestAffinity: a client stays with its endpoint as long as that is one.
func TestAffinity(t *testing.T) {
	p := onNode(t, quiet)
	if p == nil {
		return
	}
	for _, ip := range []string{"10.244.0.2", "10.244.0.3", "fd00:244::2", "fd00:244::3"} {
		answering(t, ip, false)
	}
	all := endpoints(web, "TCP", "10.244.0.2*", "10.244.0.3*", "fd00:244::2*", "fd00:244::3*")
	apply(t, p, service(web, bothIPs, "TCP", func(s *proxy.Service) {
		s.SessionAffinity, s.SessionAffinityTimeoutSeconds, s.Ports[0].NodePort = "ClientIP", 3600, 30080
	}), all)
	for _, at := range []struct{ address, one, other string }{
		{"10.96.0.10:80", "10.244.0.2", "10.244.0.3"}, {"[fd00:96::10]:80", "fd00:244::2", "fd00:244::3"}, {"10.244.0.2:30080", "10.244.0.2", "10.244.0.3"},
	} {
		first := reach(at.address)
		if first != at.one && first != at.other {
			t.Fatalf("%s is answered by %s", at.address, first)
		}
		for range 8 {
			if got := reach(at.address); got != first {
				t.Fatalf("%s: %s, then %s", at.address, first, got)
			}
		}
		left := at.one
		if first == left {
			left = at.other
		}
		apply(t, p, endpoints(web, "TCP", left+"*"))
		if got := reach(at.address); got != left {
			t.Errorf("%s: after its endpoint went: %s, want %s", at.address, got, left)
		}
		apply(t, p, all)
	}
}

// TestGracefulKernel: an open connection goes on when its endpoint is taken away, new ones go to
// the other, and the real server goes with its last connection.
func TestGracefulKernel(t *testing.T) {
	p := onNode(t, `{"healthzBindAddress":"","syncPeriod":"24h"}`)
	if p == nil {
		return
	}
	for _, ip := range []string{"10.244.0.2", "10.244.0.3"} {
		answering(t, ip, true)
	}
	apply(t, p, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.0.2*"))
	conn, err := net.Dial("tcp", "10.96.0.10:80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	says := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != want {
			t.Fatalf("got %q, %v; want %q", b, err, want)
		}
	}
	says("10.244.0.2\n")
	apply(t, p, endpoints(web, "TCP", "10.244.0.3*"))
	at := server{front: front{netip.MustParseAddr("10.96.0.10"), unix.IPPROTO_TCP, 80}}
	old := netip.MustParseAddrPort("10.244.0.2:8080")
	list, err := p.host.balancer.real(ipv4, at)
	if has, there := list[old]; err != nil || !there || has.weight != 0 || has.connections == 0 {
		t.Errorf("the old one: %+v, %t, %v", has, there, err)
	}
	for range 4 {
		if got := reach("10.96.0.10:80"); got != "10.244.0.3" {
			t.Errorf("a new connection: %s", got)
		}
	}
	p.retire(t.Context())
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	says("hello")
	// A reset: after an ordinary end IPVS keeps a connection for two minutes more.
	if err := errors.Join(conn.(*net.TCPConn).SetLinger(0), conn.Close()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		p.retire(t.Context())
		if list, err = p.host.balancer.real(ipv4, at); err != nil {
			t.Fatal(err)
		}
		if _, there := list[old]; !there {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is there still: %v", list)
		}
	}
}

// TestUDP: a flow leaves an endpoint that goes, and one that began when there was none finds the
// first.
func TestUDP(t *testing.T) {
	p := onNode(t, quiet)
	if p == nil {
		return
	}
	for _, ip := range []string{"10.244.0.2", "10.244.0.3", "fd00:244::2", "fd00:244::3"} {
		conn, err := net.ListenPacket("udp", net.JoinHostPort(ip, "8080"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		go func() { // ends with the socket
			b := make([]byte, 64)
			for {
				_, from, err := conn.ReadFrom(b)
				if err != nil {
					return
				}
				conn.WriteTo([]byte(ip), from)
			}
		}()
	}
	for _, at := range []struct{ address, one, other string }{
		{"10.96.0.10:80", "10.244.0.2", "10.244.0.3"}, {"[fd00:96::10]:80", "fd00:244::2", "fd00:244::3"}, {"10.244.0.3:30080", "10.244.0.2", "10.244.0.3"},
	} {
		apply(t, p, service(web, bothIPs, "UDP", nodePort), endpoints(web, "UDP"))
		conn, err := net.Dial("udp", at.address)
		if err != nil {
			t.Fatal(err)
		}
		echo := func() (string, error) {
			b := make([]byte, 64)
			if _, err := conn.Write([]byte("?")); err != nil {
				return "", err
			}
			conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			n, err := conn.Read(b)
			return string(b[:n]), err
		}
		if got, err := echo(); err == nil {
			t.Errorf("%s without endpoints: answered by %s", at.address, got)
		}
		for _, want := range []string{at.one, at.other, at.one} {
			apply(t, p, endpoints(web, "UDP", want+"*"))
			got, err := echo()
			for deadline := time.Now().Add(2 * time.Minute); (err != nil || got != want) && time.Now().Before(deadline); {
				got, err = echo()
			}
			if err != nil || got != want {
				t.Fatalf("%s: answered by %q (%v), want %s", at.address, got, err, want)
			}
		}
		conn.Close()
	}
}

// TestSCTP sends the first packet of an association.
func TestSCTP(t *testing.T) {
	p := onNode(t, quiet)
	if p == nil {
		return
	}
	apply(t, p, service(web, "10.96.0.10", "SCTP", nodePort), endpoints(web, "SCTP", "10.244.0.3*"))
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}); err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 32)
	binary.BigEndian.PutUint16(packet, 5000)   // source port
	binary.BigEndian.PutUint16(packet[2:], 80) // destination port; no tag follows
	packet[12], packet[15] = 1, 20             // INIT, with its length
	binary.BigEndian.PutUint32(packet[16:], 7) // its tag
	binary.BigEndian.PutUint32(packet[20:], 1500)
	packet[25], packet[27] = 1, 1 // streams
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, crc32.MakeTable(crc32.Castagnoli)))
	if err := unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: [4]byte{10, 96, 0, 10}}); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1500)
	size, _, err := unix.Recvfrom(fd, got, 0)
	if err != nil || size < 24 {
		t.Fatalf("no packet came to the endpoint: %d bytes, %v", size, err)
	}
	header := int(got[0]&0xf) * 4
	if to, port := net.IP(got[16:20]).String(), binary.BigEndian.Uint16(got[header+2:]); to != "10.244.0.3" || port != 8080 {
		t.Errorf("the packet came to %s:%d", to, port)
	}
}

// TestRemove: what a run left that was killed is removed by another proxy.
func TestRemove(t *testing.T) {
	p := onNode(t, quiet)
	if p == nil {
		return
	}
	local := func(s *proxy.Service) { s.ExternalTrafficPolicy, s.Ports[0].NodePort = "Local", 30080 }
	apply(t, p, service(web, bothIPs, "TCP", local), endpoints(web, "TCP", "10.244.0.2*", "fd00:244::2*"))
	if err := Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*family{ipv4, ipv6} {
		if list, err := p.host.balancer.list(f); err != nil || len(list) > 0 {
			t.Errorf("servers %v, %v", list, err)
		}
	}
	if link, err := (dummy{}).find(); link != nil || err != nil {
		t.Errorf("the device is there: %v, %v", link, err)
	}
	if err := Remove(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}
