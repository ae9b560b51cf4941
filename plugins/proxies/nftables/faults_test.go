package nftables

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/sdk/proxy"
)

// churning is the environment variable by which the test's binary knows that it is a proxy that
// changes all its services until it is killed. Its value is the directory of its state.
const churning = "PINTLE_NFTABLES_CHURNING"

func init() {
	if state := os.Getenv(churning); state != "" {
		fmt.Fprintln(os.Stderr, churn(state))
		os.Exit(1)
	}
}

// churned is how many services such a proxy has: one sync of them takes several transactions.
const churned = 6000

// turns are the endpoints that a service has, one after the other.
var turns = [][]string{{"10.244.0.2*", "10.244.0.3*"}, {"10.244.0.3*"}, {"10.244.0.2*"}, {"10.244.0.3*", "10.244.0.2*", "10.244.0.3*"}}

// everyService has all services with the endpoints of a turn.
func everyService(turn int) []*proxy.Change {
	changes := services(churned, nil)
	for i := range churned {
		changes[2*i+1] = endpointsSet(numbered(i), "TCP", turns[(turn+i)%len(turns)]...)
	}
	return changes
}

func churn(state string) error {
	p := New()
	if err := p.Start(context.Background(), onThisNode(state, quiet)); err != nil {
		return err
	}
	for turn := range 1000 { // it is killed long before
		if err := p.Apply(context.Background(), &proxy.Diff{Generation: uint64(turn + 1), Reset_: turn == 0, Changes: everyService(turn)}); err != nil {
			return err
		}
		if _, err := fmt.Println(turn); err != nil {
			return err
		}
	}
	return nil
}

// TestKilledInASync: a proxy is killed at any moment of a sync that takes several transactions.
// Each service is answered all the time, by an endpoint that it had before or has after. The next
// proxy has the tables as they should be, with nothing more.
func TestKilledInASync(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	answering(t, "10.244.0.2")
	answering(t, "10.244.0.3")
	n.apply(everyService(0)...)
	asked := 0
	ask := func(when string) {
		t.Helper()
		asked++
		i := rand.IntN(churned)
		address := fmt.Sprintf("10.96.%d.%d:80", i/250, 1+i%250)
		if got := reach(address); !strings.HasPrefix(got, "10.244.0.") {
			t.Fatalf("%s: %s is answered by %q", when, address, got)
		}
	}
	state := t.TempDir()
	for round := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), churning+"="+state)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The first sync takes over what the one before left; later ones change each service.
		lines := bufio.NewReader(out)
		for range round % 3 {
			if _, err := lines.ReadString('\n'); err != nil {
				t.Fatalf("the proxy ended: %v %s", err, said.String())
			}
		}
		for range rand.IntN(400) {
			ask("in a sync")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, lines); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || said.Len() > 0 {
			t.Fatalf("the proxy ended by itself: %v %s", err, said.String())
		}
		for range 100 {
			ask("after the kill")
		}
	}
	// The one of this process comes back after that, as a started one does.
	if err := n.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context(), onThisNode(t.TempDir(), quiet)); err != nil {
		t.Fatal(err)
	}
	n.generation = 0
	n.apply(everyService(1)...)
	n.check(t.Context()) // chains that nothing leads to go
	n.holds("after the kills")
	for range 100 {
		ask("with the next proxy")
	}
	t.Logf("%d connections, each of which was answered", asked)
}

// descriptors are those that this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestFlapping: endpoints of services come and go, beside others that stay. A connection after a
// change goes to an endpoint of that moment, and a flow that was there follows. The kernel is asked
// for its flows less often than endpoints change. What stays is answered throughout. Afterwards
// there is no element, chain, map, goroutine or descriptor more than before.
func TestFlapping(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	const changes = 300
	answering(t, "10.244.0.2")
	answering(t, "10.244.0.3")
	for _, ip := range []string{"10.244.0.2", "10.244.0.3"} {
		echoes(t, ip)
	}
	sticky := func(s *proxy.Service) {
		s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "ClientIP", 600
	}
	kinds := []proxy.Name{numbered(0), numbered(1), numbered(2)} // plain, with affinity, UDP
	load := slices.Concat(services(1, nil), services(2, sticky)[2:], services(3, func(s *proxy.Service) { s.Ports[0].Protocol = "UDP" })[4:],
		services(4, nil)[6:])
	stays := numbered(3)
	at := map[proxy.Name]string{kinds[0]: "10.96.0.1:80", kinds[1]: "10.96.0.2:80", kinds[2]: "10.96.0.3:80", stays: "10.96.0.4:80"}
	set := func(turn []string) (out []*proxy.Change) {
		for i, name := range kinds {
			protocol := "TCP"
			if i == 2 {
				protocol = "UDP"
			}
			out = append(out, endpointsSet(name, protocol, turn...))
		}
		return out
	}
	flapping := append(slices.Clone(turns), nil) // and none at all
	n.apply(append(load, endpointsSet(stays, "TCP", "10.244.0.2*"))...)
	n.apply(set(turns[0])...)
	flow, err := net.Dial("udp", at[kinds[2]])
	if err != nil {
		t.Fatal(err)
	}
	defer flow.Close()
	n.check(t.Context())
	var looks atomic.Int32
	n.flows.Stop()
	n.flows = conntrack.ForgetterBy(func(f conntrack.Family, gone *conntrack.Stale) error {
		looks.Add(1)
		_, err := conntrack.Delete(f, gone.Match)
		return err
	})
	before := n.weight(t)
	for i := range changes {
		turn := flapping[i%len(flapping)]
		n.apply(set(turn)...)
		allowed := map[string]bool{}
		for _, text := range turn {
			allowed[strings.TrimSuffix(text, "*")] = true
		}
		if len(turn) == 0 {
			allowed["refused"] = true
		}
		for _, name := range kinds[:2] {
			if got := reach(at[name]); !allowed[got] {
				t.Fatalf("change %d: %s is answered by %s, and has %q", i, name, got, turn)
			}
		}
		if got := reach(at[stays]); got != "10.244.0.2" {
			t.Fatalf("change %d: what stays is answered by %s", i, got)
		}
		if i%31 == 0 { // each turn has its turn
			n.check(t.Context()) // a period between changes
		}
		if i%31 != 0 || len(turn) == 0 { // a flow without endpoints is kept, as kube-proxy does
			continue
		}
		eventually(t, "a flow that was there follows", func() error {
			got, err := echo(flow, i)
			if err == nil && !allowed[got] {
				err = fmt.Errorf("change %d: answered by %s, and the service has %q", i, got, turn)
			}
			return err
		})
	}
	n.apply(set(turns[0])...)
	n.check(t.Context())
	n.holds("afterwards")
	if got := int(looks.Load()); got == 0 || got > changes/2 {
		t.Errorf("the kernel was asked for its flows %d times by %d changes", got, changes)
	}
	if after := n.weight(t); !maps.Equal(after, before) {
		t.Errorf("before %v, and after %d changes %v", before, changes, after)
	}
}

// weight counts what could be left over.
func (n *node) weight(t *testing.T) map[string]int {
	t.Helper()
	there, err := n.kernel.read(ipv4)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{
		"elements": len(there.elements), "chains": len(there.chains), "maps of clients": len(there.maps), "descriptors": descriptors(t),
	}
	// Those of answers that were given end by themselves.
	least := runtime.NumGoroutine()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); runtime.Gosched() {
		least = min(least, runtime.NumGoroutine())
	}
	out["goroutines"] = least
	return out
}

// echoes answers datagrams at port 8080 of an address with that address and what they have.
func echoes(t *testing.T, ip string) {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(ip, "8080"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() { // ends with the socket
		for b := make([]byte, 64); ; {
			size, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			conn.WriteTo(append([]byte(ip+" "), b[:size]...), from)
		}
	}()
}

// echo sends a numbered datagram and says who answers it. One that is on its way while its flow is
// deleted is lost.
func echo(conn net.Conn, number int) (string, error) {
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(conn, number)
	for b := make([]byte, 64); ; {
		size, err := conn.Read(b)
		if err != nil {
			return "", err
		}
		if who, what, _ := strings.Cut(string(b[:size]), " "); what == fmt.Sprint(number) {
			return who, nil
		}
	}
}

// onThisNode are the options of the proxy on a node without others.
func onThisNode(state, config string) proxy.Options {
	return proxy.Options{
		NodeName: "n", NodeIPs: []string{"10.244.0.2", "fd00:244::2"}, ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/64"},
		ServiceCIDRs: []string{"10.96.0.0/16", "fd00:96::/112"}, StateDirectory: state, Config: []byte(config), Logger: slog.New(slog.DiscardHandler),
	}
}

// fill has the kernel track flows until it takes no more. They are such that it drops none of them
// for another one. The limit is the machine's, the table this network's own.
func fill(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	usage, err := conntrack.ReadUsage()
	if err != nil {
		t.Skipf("this kernel does not say how many connections it tracks: %v", err)
	}
	if usage.Limit > 1<<20 {
		t.Skipf("the kernel tracks up to %d connections, which are too many for a test; the limit is net.netfilter.nf_conntrack_max", usage.Limit)
	}
	attribute := func(kind uint16, data ...byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(data)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), data...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	const nested = 0x8000
	// Addresses of no machine: who began it, the other end, and the reverse.
	tuple := func(kind uint16, from, to [4]byte) []byte {
		ip := attribute(nested|1, append(attribute(1, from[:]...), attribute(2, to[:]...)...)...)
		protocol := attribute(nested|2, slices.Concat(attribute(1, unix.IPPROTO_UDP), attribute(2, 0, 7), attribute(3, 0, 9))...)
		return attribute(nested|kind, append(ip, protocol...)...)
	}
	const established = 1<<1 | 1<<2 | 1<<3 // answered, assured, confirmed
	number := 0
	for tries := 0; ; tries++ {
		u, err := conntrack.ReadUsage()
		if err != nil {
			t.Fatal(err)
		}
		if u.Entries >= u.Limit {
			return
		}
		if tries > 1000 {
			t.Fatalf("%d connections of %d are tracked, after %d were written", u.Entries, u.Limit, number)
		}
		var messages []byte
		for range 400 {
			number++
			from, to := [4]byte{100, 64 | byte(number>>16&0x3f), byte(number >> 8), byte(number)}, [4]byte{192, 0, 2, 1}
			body := slices.Concat([]byte{unix.AF_INET, 0, 0, 0}, tuple(1, from, to), tuple(2, to, from),
				attribute(3, 0, 0, 0, established), attribute(7, 0, 0, 2, 88)) // for 600 s
			header := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
			header = binary.NativeEndian.AppendUint16(header, 1<<8) // a new one of the table
			header = binary.NativeEndian.AppendUint16(header, unix.NLM_F_REQUEST|unix.NLM_F_CREATE)
			messages = append(append(messages, append(header, make([]byte, 8)...)...), body...)
		}
		if err := unix.Sendto(fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTableFull: when the kernel can track no more connections, new ones through a service get no
// answer, and the log says why. Those that were there go on, rules change, and as soon as there is
// room new ones are answered, without a restart.
func TestTableFull(t *testing.T) {
	n := onNode(t, quiet)
	if n == nil {
		return
	}
	answering(t, "10.244.0.2")
	var said bytes.Buffer
	n.log = slog.New(slog.NewTextHandler(&said, nil))
	l, err := net.Listen("tcp", "10.244.0.3:8080")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n.apply(service("TCP", nil), endpointsSet(web, "TCP", "10.244.0.3*"))
	open, err := net.Dial("tcp", "10.96.0.10:80")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	goesOn := func(when string) {
		t.Helper()
		b := make([]byte, 1)
		for _, pair := range [][2]net.Conn{{open, server}, {server, open}} {
			pair[1].SetDeadline(time.Now().Add(time.Minute))
			if _, err := pair[0].Write([]byte("x")); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if _, err := pair[1].Read(b); err != nil {
				t.Fatalf("%s: the connection that was there: %v", when, err)
			}
		}
	}
	n.apply(endpointsSet(web, "TCP", "10.244.0.2*"))
	if got := reach("10.96.0.10:80"); got != "10.244.0.2" {
		t.Fatalf("at first: answered by %s", got)
	}
	n.check(t.Context())
	fill(t)
	if got := tries("10.96.0.10:80"); got != "nothing" {
		t.Errorf("a new connection is answered by %s", got)
	}
	goesOn("with a full table")
	n.check(t.Context())
	if text := said.String(); !strings.Contains(text, "no room") || !strings.Contains(text, "nf_conntrack_max") {
		t.Errorf("the log says %q", text)
	}
	// Rules change, also where flows have to be looked for among so many.
	dns := proxy.Name{Namespace: "default", Name: "dns"}
	udp := service("UDP", func(s *proxy.Service) {
		s.Name.Name, s.ClusterIps, s.Ports[0].NodePort = dns.Name, []string{"10.96.0.11"}, 0
	})
	n.apply(udp, endpointsSet(dns, "UDP", "10.244.0.2*"))
	n.holds("with a full table")
	goesOn("after a change")
	some := netip.MustParsePrefix("100.64.16.0/20")
	if deleted, err := conntrack.Delete(conntrack.IPv4, func(f conntrack.Flow) bool { return some.Contains(f.Original.Source.Addr()) }); err != nil || deleted == 0 {
		t.Fatalf("%d connections are deleted, %v", deleted, err)
	}
	if got := reach("10.96.0.10:80"); got != "10.244.0.2" {
		t.Errorf("with room again: answered by %s", got)
	}
	goesOn("with room again")
	said.Reset()
	n.check(t.Context()) // some were dropped since the last look, or not
	n.check(t.Context())
	if text := said.String(); !strings.Contains(text, "has room again") {
		t.Errorf("the log says %q", text)
	}
}
