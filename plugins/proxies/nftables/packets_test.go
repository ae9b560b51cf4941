package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/netfilter"
	"pintle.dev/pintle/plugins/proxies/packets"
	"pintle.dev/pintle/sdk/proxy"
)

// node is a proxy on a node without others, over the kernel's own tables.
type node struct {
	*Proxy
	t          *testing.T
	generation uint64
}

// onNode starts the proxy in a network namespace of its own; nil in the process that waits for
// it.
func onNode(t *testing.T, config string) *node {
	t.Helper()
	if !packets.Inside(t) {
		return nil
	}
	packets.Alone(t)
	p := New()
	if err := p.Probe(t.Context(), nil); err != nil {
		t.Skipf("this machine cannot run the proxy: %v", err)
	}
	if err := p.Start(t.Context(), onThisNode(t.TempDir(), config)); err != nil {
		t.Fatal(err)
	}
	n := &node{Proxy: p, t: t}
	t.Cleanup(func() {
		if err := p.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
		n.without(tableName)
	})
	return n
}

const quiet = `{"healthzBindAddress":"","syncPeriod":"24h"}`

func (n *node) apply(changes ...*proxy.Change) {
	n.t.Helper()
	n.generation++
	if err := n.Apply(n.t.Context(), &proxy.Diff{Generation: n.generation, Reset_: n.generation == 1, Changes: changes}); err != nil {
		n.t.Fatal(err)
	}
}

// without checks that the kernel has no such table.
func (n *node) without(name string) {
	n.t.Helper()
	conn, err := nft.New()
	if err != nil {
		n.t.Fatal(err)
	}
	list, err := conn.ListTables()
	if err != nil {
		n.t.Fatal(err)
	}
	for _, table := range list {
		if table.Name == name {
			n.t.Errorf("the table %s is left", name)
		}
	}
}

// holds checks that the kernel's table is what the proxy wants, to the last element and chain.
func (n *node) holds(what string) {
	n.t.Helper()
	for _, s := range n.sides {
		there, err := n.kernel.read(s.f)
		if err != nil {
			n.t.Fatal(err)
		}
		want := map[item]string{}
		for i, c := range s.wanted.cells {
			want[i] = c.value
		}
		if !maps.Equal(there.elements, want) {
			same(n.t, what+", elements", texts(s.f, there.elements), texts(s.f, want))
		}
		slices.Sort(there.chains)
		same(n.t, what+", chains", there.chains, slices.Sorted(maps.Keys(s.wanted.kernel)))
	}
}

var web = proxy.Name{Namespace: "default", Name: "web"}

// service is web, with one port that is named http.
func service(protocol string, change func(*proxy.Service)) *proxy.Change {
	s := &proxy.Service{
		Name: &proxy.ServiceName{Namespace: web.Namespace, Name: web.Name}, Type: "NodePort", ClusterIps: []string{"10.96.0.10", "fd00:96::10"}, SessionAffinity: "None",
		Ports: []*proxy.ServicePort{{Name: "http", Protocol: protocol, Port: 80, NodePort: 30080}},
	}
	if change != nil {
		change(s)
	}
	return serviceSet(s)
}

// answering listens at port 8080 of an address and says the address to all who come.
func answering(t *testing.T, ip string) {
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
			io.WriteString(conn, ip)
			conn.Close()
		}
	}()
}

// reach is what answers at an address, or that it is refused.
func reach(address string) string { return dial(address, time.Minute) }

// tries is the same where nothing may answer.
func tries(address string) string { return dial(address, 2*time.Second) }

func dial(address string, patience time.Duration) string {
	conn, err := net.DialTimeout("tcp", address, patience)
	var late net.Error
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.As(err, &late) && late.Timeout():
		return "nothing"
	case err != nil:
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	body, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// TestKernel: what the proxy writes is what the kernel holds, and what is done to its table by
// hand is mended.
func TestKernel(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	answering(t, "10.244.0.2")
	answering(t, "10.244.0.3")
	answering(t, "fd00:244::3")
	n.apply(service("TCP", nil), endpointsSet(web, "TCP", "10.244.0.2*", "10.244.0.3*", "fd00:244::3*"))
	n.holds("at first")
	seen := map[string]bool{}
	for range 64 { // both within 64 tries but for one in 2^63
		seen[reach("10.96.0.10:80")] = true
	}
	if len(seen) != 2 || !seen["10.244.0.2"] || !seen["10.244.0.3"] {
		t.Errorf("the cluster IP is answered by %v", seen)
	}
	for address, want := range map[string]string{
		"[fd00:96::10]:80": "fd00:244::3", "[fd00:244::2]:30080": "fd00:244::3",
		"10.96.0.10:81": "refused", "[fd00:96::10]:81": "refused", // an address of a service, not a port of it
	} {
		if got := reach(address); got != want {
			t.Errorf("%s is answered by %s, want %s", address, got, want)
		}
	}
	if got := tries("10.96.0.11:80"); got != "nothing" { // in the range, and of no service
		t.Errorf("an address of nobody is answered by %s", got)
	}
	if got := reach("127.0.0.1:30080"); !strings.HasPrefix(got, "10.244.0.") {
		t.Errorf("the node port at 127.0.0.1 is answered by %s", got)
	}
	n.apply(endpointsSet(web, "TCP", "10.244.0.3*"))
	n.holds("after an endpoint went")
	if got, other := reach("10.96.0.10:80"), reach("[fd00:96::10]:80"); got != "10.244.0.3" || other != "refused" {
		t.Errorf("answered by %s and %s", got, other)
	}
	n.apply(endpointsSet(web, "TCP"))
	if got, port := reach("10.96.0.10:80"), reach("10.244.0.2:30080"); got != "refused" || port != "refused" {
		t.Errorf("without endpoints: %s, at the node port %s", got, port)
	}
	n.apply(endpointsSet(web, "TCP", "10.244.0.2*", "10.244.0.3*"))
	for what, harm := range map[string]func(*nft.Conn){
		"a chain is flushed": func(c *nft.Conn) { c.FlushChain(&nft.Chain{Table: ipv4.table, Name: chainServices}) },
		"a map is flushed":   func(c *nft.Conn) { c.FlushSet(&nft.Set{Table: ipv4.table, Name: serviceIPs.String()}) },
		"the table goes":     func(c *nft.Conn) { c.DelTable(ipv4.table) },
		"the rules go":       func(c *nft.Conn) { c.FlushTable(ipv4.table) },
		"a chain is no chain": func(c *nft.Conn) {
			c.DelTable(ipv4.table)
			c.AddTable(ipv4.table)
			c.AddChain(&nft.Chain{Table: ipv4.table, Name: "nat-output"})
		},
	} {
		conn, err := nft.New()
		if err != nil {
			t.Fatal(err)
		}
		harm(conn)
		if err := conn.Flush(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := tries("10.96.0.10:80"); strings.HasPrefix(got, "10.244.0.") {
			t.Errorf("%s: the service is answered by %s still", what, got)
		}
		n.check(t.Context())
		n.holds("after a period: " + what)
		if got := reach("10.96.0.10:80"); !strings.HasPrefix(got, "10.244.0.") {
			t.Errorf("after a period: %s: answered by %s", what, got)
		}
	}
	n.mendsNoMore()
	n.apply(serviceRemove(web)...)
	n.check(t.Context())
	n.holds("without a service")
}

// undisturbed checks that a period in which somebody changed another table writes nothing.
func (n *node) undisturbed() {
	n.t.Helper()
	conn, err := nft.New()
	if err != nil {
		n.t.Fatal(err)
	}
	other := conn.AddTable(&nft.Table{Name: "other", Family: nft.TableFamilyIPv4})
	conn.DelTable(other)
	if err := conn.Flush(); err != nil {
		n.t.Fatal(err)
	}
	before, err := n.kernel.generation()
	if err != nil {
		n.t.Fatal(err)
	}
	if before == n.Proxy.generation {
		n.t.Error("the generation did not move")
	}
	n.check(n.t.Context())
	if after, err := n.kernel.generation(); err != nil || after != before {
		n.t.Errorf("the generation is %d before a period and %d after it, %v", before, after, err)
	}
}

// mendsNoMore checks that a period in which somebody changed another table writes nothing, and
// that rules which were added or deleted, or a table that sleeps, are found.
func (n *node) mendsNoMore() {
	n.t.Helper()
	conn, err := nft.New()
	if err != nil {
		n.t.Fatal(err)
	}
	other := &nft.Table{Name: "other", Family: nft.TableFamilyIPv4}
	defer func() {
		conn.DelTable(other)
		if err := conn.Flush(); err != nil {
			n.t.Error(err)
		}
	}()
	rules := func(chain string) []*nft.Rule {
		n.t.Helper()
		list, err := conn.GetRules(ipv4.table, &nft.Chain{Name: chain})
		if err != nil {
			n.t.Fatal(err)
		}
		return list
	}
	adds := func(chain string) func() {
		return func() {
			conn.AddRule(&nft.Rule{Table: ipv4.table, Chain: &nft.Chain{Name: chain}, Exprs: one(drop())})
		}
	}
	const picks = "service-cluster-2"
	fixed, shared := len(rules(chainServices)), len(rules(picks))
	for _, step := range []struct {
		name   string
		harm   func()
		writes bool
	}{
		{"another's table", func() { conn.AddTable(other) }, false},
		{"a rule is added to the layout", adds(chainServices), true},
		{"a rule is added to a chain", adds(picks), true},
		{"a rule is deleted", func() {
			if err := conn.DelRule(rules(picks)[0]); err != nil {
				n.t.Fatal(err)
			}
		}, true},
		{"a rule is exchanged", func() {
			r := rules(picks)[0]
			r.Exprs = one(drop())
			conn.ReplaceRule(r)
		}, true},
		{"the table sleeps", func() {
			conn.AddTable(&nft.Table{Name: tableName, Family: nft.TableFamilyIPv4, Flags: nft.TableFlagDormant})
		}, true},
		{"another's table once more", func() { conn.DelTable(other); conn.AddTable(other) }, false},
	} {
		step.harm()
		if err := conn.Flush(); err != nil {
			n.t.Fatalf("%s: %v", step.name, err)
		}
		before, err := n.kernel.generation()
		if err != nil {
			n.t.Fatal(err)
		}
		n.check(n.t.Context())
		after, err := n.kernel.generation()
		if err != nil {
			n.t.Fatal(err)
		}
		if (after != before) != step.writes {
			n.t.Errorf("%s: the generation is %d before a period and %d after it", step.name, before, after)
		}
		if now, also := len(rules(chainServices)), len(rules(picks)); now != fixed || also != shared {
			n.t.Errorf("%s: %d and %d rules, want %d and %d", step.name, now, also, fixed, shared)
		}
		if got := reach("10.96.0.10:80"); !strings.HasPrefix(got, "10.244.0.") {
			n.t.Errorf("%s: the service is answered by %s", step.name, got)
		}
		n.holds(step.name)
	}
}

// TestWithoutNFTables: where the kernel has none, nothing is left to be removed, and no error
// says otherwise. Other errors stay errors.
func TestWithoutNFTables(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{unix.EINVAL: true, unix.EOPNOTSUPP: true, unix.EPERM: false, unix.ENOBUFS: false} {
		conn, err := nft.New(nft.WithTestDial(func([]netlink.Message) ([]netlink.Message, error) { return nil, errno }))
		if err != nil {
			t.Fatal(err)
		}
		if err := (&tables{socket: netfilter.Over(conn)}).remove(ipv4); (err == nil) != want || err != nil && !errors.Is(err, errno) {
			t.Errorf("%v: got %v", errno, err)
		}
	}
}

// TestAffinity: a client stays with its endpoint while that is one, and gets another then
// (LBR-6).
func TestAffinity(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	for _, ip := range []string{"10.244.0.2", "10.244.0.3", "fd00:244::2", "fd00:244::3"} {
		answering(t, ip)
	}
	sticky := service("TCP", func(s *proxy.Service) { s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "ClientIP", 3600 })
	n.apply(sticky, endpointsSet(web, "TCP", "10.244.0.2*", "10.244.0.3*", "fd00:244::2*", "fd00:244::3*"))
	n.holds("at first")
	for _, at := range []struct{ address, one, other string }{
		{"10.96.0.10:80", "10.244.0.2", "10.244.0.3"}, {"[fd00:96::10]:80", "fd00:244::2", "fd00:244::3"}, {"10.244.0.2:30080", "10.244.0.2", "10.244.0.3"},
	} {
		first := reach(at.address)
		if first != at.one && first != at.other {
			t.Fatalf("%s is answered by %s", at.address, first)
		}
		for range 16 {
			if got := reach(at.address); got != first {
				t.Fatalf("%s: %s, then %s", at.address, first, got)
			}
		}
		left := at.one
		if first == left {
			left = at.other
		}
		n.apply(endpointsSet(web, "TCP", left+"*"))
		if got := reach(at.address); got != left {
			t.Errorf("%s: after its endpoint went: %s, want %s", at.address, got, left)
		}
		// It stays where it is when the first one comes back.
		n.apply(endpointsSet(web, "TCP", "10.244.0.2*", "10.244.0.3*", "fd00:244::2*", "fd00:244::3*"))
		for range 16 {
			if got := reach(at.address); got != left {
				t.Errorf("%s: after the other came back: %s, want %s", at.address, got, left)
				break
			}
		}
	}
	n.apply(serviceRemove(web)...)
	n.check(t.Context())
	n.holds("without a service")
	if there, err := n.kernel.read(ipv4); err != nil || len(there.maps) > 0 {
		t.Errorf("maps %v, %v", there.maps, err)
	}
}

// TestUDP: a flow leaves an endpoint that goes, and one that began when there was none finds the
// first.
func TestUDP(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
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
	// One socket each: all its packets are one flow.
	for _, at := range []struct{ address, one, other string }{
		{"10.96.0.10:80", "10.244.0.2", "10.244.0.3"}, {"[fd00:96::10]:80", "fd00:244::2", "fd00:244::3"}, {"10.244.0.3:30080", "10.244.0.2", "10.244.0.3"},
	} {
		n.apply(service("UDP", nil), endpointsSet(web, "UDP"))
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
			got, err := conn.Read(b)
			return string(b[:got]), err
		}
		if got, err := echo(); err == nil {
			t.Errorf("%s without endpoints: answered by %s", at.address, got)
		}
		for _, want := range []string{at.one, at.other, at.one} {
			n.apply(endpointsSet(web, "UDP", want+"*"))
			eventually(t, fmt.Sprintf("%s is answered by %s", at.address, want), func() error {
				got, err := echo()
				if err == nil && got != want {
					err = fmt.Errorf("answered by %s", got)
				}
				return err
			})
		}
		conn.Close()
	}
}

func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	err := try()
	for deadline := time.Now().Add(2 * time.Minute); err != nil; err = try() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestSCTP sends the first packet of an association, since this kernel may have no sockets of
// the protocol.
func TestSCTP(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	n.apply(service("SCTP", nil), endpointsSet(web, "SCTP", "10.244.0.3*"))
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
	binary.BigEndian.PutUint16(packet[2:], 80) // destination port; no tag and no sum follow
	packet[12], packet[15] = 1, 20             // INIT, with its length
	binary.BigEndian.PutUint32(packet[16:], 7) // its tag
	binary.BigEndian.PutUint32(packet[20:], 1500)
	packet[25], packet[27] = 1, 1 // streams
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

// TestSomeAddresses: node ports are served where nodePortAddresses says, and not at 127.0.0.1.
func TestSomeAddresses(t *testing.T) {
	n := onNode(t, `{"healthzBindAddress":"","syncPeriod":"24h","nodePortAddresses":["primary"]}`)
	if n == nil {
		return
	}
	answering(t, "10.244.0.3")
	n.apply(service("TCP", nil), endpointsSet(web, "TCP", "10.244.0.3*"))
	n.holds("at first")
	for address, want := range map[string]string{"10.244.0.2:30080": "10.244.0.3", "10.244.0.3:30080": "refused", "127.0.0.1:30080": "refused"} {
		if got := reach(address); got != want {
			t.Errorf("%s is answered by %s, want %s", address, got, want)
		}
	}
	n.apply(endpointsSet(web, "TCP"))
	if got := reach("10.244.0.2:30080"); got != "refused" {
		t.Errorf("without endpoints: %s", got)
	}
}

// TestLarge: 3,000 services of all kinds at once, a change of each, and all gone again.
func TestLarge(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	const count = 3000
	kinds := func(s *proxy.Service) {
		switch s.Name.Name[len(s.Name.Name)-1] {
		case '1':
			s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "ClientIP", 600
		case '2':
			s.LoadBalancerIps, s.LoadBalancerSourceRanges = []string{strings.Replace(s.ClusterIps[0], "10.96", "10.97", 1)}, []string{"10.0.0.0/8", "192.0.2.0/24"}
		case '3':
			s.ExternalIps, s.ExternalTrafficPolicy = []string{strings.Replace(s.ClusterIps[0], "10.96", "10.98", 1)}, "Local"
		}
	}
	n.apply(services(count, kinds)...)
	n.holds("at first")
	var changes []*proxy.Change
	for i := range count {
		changes = append(changes, endpointsSet(numbered(i), "TCP", podOf(i, 1), podOf(i, 2), podOf(i, 3)))
	}
	n.apply(changes...)
	n.holds("after a change of each")
	if len(n.sides[0].wanted.oldMaps) > 0 || !n.sides[0].known {
		t.Error("the kernel did not take the changes as they were")
	}
	n.check(t.Context())
	n.holds("after a period")
	n.undisturbed()
	changes = nil
	for i := range count {
		changes = append(changes, serviceRemove(numbered(i))...)
	}
	n.apply(changes...)
	n.check(t.Context())
	n.holds("without services")
	if there, err := n.kernel.read(ipv4); err != nil || len(there.elements)+len(there.chains)+len(there.maps) > 0 {
		t.Errorf("left: %d elements, %d chains, %d maps, %v", len(there.elements), len(there.chains), len(there.maps), err)
	}
}
