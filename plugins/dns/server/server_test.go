package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"pintle.dev/pintle/sdk/proxy"
)

// upstream is a nameserver that knows www.example.com, and says nothing about names
// below silent.
func upstream(t *testing.T) string {
	t.Helper()
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	answer := dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		switch name := r.Question[0].Name; {
		case strings.HasSuffix(name, "silent."):
			return
		case name == "www.example.com." && r.Question[0].Qtype == dns.TypeA, name == "example.com.":
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(198, 51, 100, 7)}}
		default:
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})
	for _, server := range []*dns.Server{{PacketConn: conn, Handler: answer}, {Listener: listener, Handler: answer}} {
		go func() { _ = server.ActivateAndServe() }()
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return address
}

// options of a node on loopback.
func options(t *testing.T, socket, config string) proxy.Options {
	return proxy.Options{
		Name: "coredns", Config: []byte(config), NodeName: "n", NodeIPs: []string{"127.0.0.1"}, PodCIDRs: []string{"10.244.0.0/24"},
		ServiceCIDRs: []string{"10.3.0.0/16"}, APISocket: socket, ClusterDomain: "cluster.local", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// started is a server with the cluster, and where it answers.
func started(t *testing.T, config string) (*Server, string) {
	t.Helper()
	s := New(false)
	s.resolvConf = filepath.Join(t.TempDir(), "none")
	if err := s.Start(t.Context(), options(t, serveAPI(t, cluster()), config)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background(), true); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.serves[0].GetPort())))
}

// freePort is one that nothing has, out of those that the system gives to nobody who does
// not ask for them: other tests have sockets at the same time.
func freePort(t *testing.T) int {
	t.Helper()
	for {
		port, err := free("127.0.0.1", 20000+rand.IntN(10000))
		if err == nil {
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// ready asks until the server says that it is: it gives itself little time to answer.
func ready(t *testing.T, s *Server) proxy.Status {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		status := s.Status()
		if status.Ready || time.Now().After(deadline) {
			return status
		}
	}
}

func config(t *testing.T, more string) string {
	return fmt.Sprintf(`{"port": %d, "metricsPort": -1, "upstreamNameservers": [%q], "stubDomains": {"corp.example": [%q]}%s}`, freePort(t), upstream(t), upstream(t), more)
}

// The examples of the Kubernetes DNS specification, by UDP and by TCP.
func TestSpecification(t *testing.T) {
	_, address := started(t, config(t, `, "hosts": {"203.0.113.5": ["box.lan"]}`))
	const none = dns.RcodeNameError
	for _, x := range []struct {
		name  string
		kind  uint16
		rcode int
		want  []string // ends of the answers, sorted
	}{
		{"dns-version.cluster.local.", dns.TypeTXT, 0, []string{`"1.1.0"`}},
		{"kubernetes.default.svc.cluster.local.", dns.TypeA, 0, []string{"10.3.0.1"}},
		{"KuBerNetes.Default.svc.cluster.LOCAL.", dns.TypeA, 0, []string{"10.3.0.1"}},
		{"kubernetes.default.svc.cluster.local.", dns.TypeAAAA, 0, nil},
		{"_https._tcp.kubernetes.default.svc.cluster.local.", dns.TypeSRV, 0, []string{"443 kubernetes.default.svc.cluster.local."}},
		{"_http._tcp.kubernetes.default.svc.cluster.local.", dns.TypeSRV, none, nil},
		{"1.0.3.10.in-addr.arpa.", dns.TypePTR, 0, []string{"kubernetes.default.svc.cluster.local."}},
		// Endpoints that are not ready have no record; a name of its own is the hostname's.
		{"headless.default.svc.cluster.local.", dns.TypeA, 0, []string{"10.3.0.100", "10.3.0.101"}},
		{"my-pet.headless.default.svc.cluster.local.", dns.TypeA, 0, []string{"10.3.0.100"}},
		{"_https._tcp.headless.default.svc.cluster.local.", dns.TypeSRV, 0, []string{"443 10-3-0-101.headless.default.svc.cluster.local.", "443 my-pet.headless.default.svc.cluster.local."}},
		{"100.0.3.10.in-addr.arpa.", dns.TypePTR, 0, []string{"my-pet.headless.default.svc.cluster.local."}},
		{"102.0.3.10.in-addr.arpa.", dns.TypePTR, none, nil},
		{"empty.default.svc.cluster.local.", dns.TypeA, none, nil}, // as the specification has it: no endpoint is ready
		{"foo.default.svc.cluster.local.", dns.TypeCNAME, 0, []string{"www.example.com."}},
		{"foo.default.svc.cluster.local.", dns.TypeA, 0, []string{"198.51.100.7", "www.example.com."}},
		{"10-3-0-100.default.pod.cluster.local.", dns.TypeA, 0, []string{"10.3.0.100"}},
		{"10-3-0-100.nowhere.pod.cluster.local.", dns.TypeA, none, nil},
		{"default.svc.cluster.local.", dns.TypeA, 0, nil},
		{"nothing.default.svc.cluster.local.", dns.TypeA, none, nil},
		{"kubernetes.nowhere.svc.cluster.local.", dns.TypeA, none, nil},
		// Names of the world that look like a service and its namespace are the world's.
		{"example.com.", dns.TypeA, 0, []string{"198.51.100.7"}},
		{"example.com.svc.cluster.local.", dns.TypeA, 0, []string{"10.3.0.9"}},
		{"nothing.example.", dns.TypeA, none, nil},
		{"nothing.corp.example.", dns.TypeA, none, nil},
		{"box.lan.", dns.TypeA, 0, []string{"203.0.113.5"}},
	} {
		for _, network := range []string{"udp", "tcp"} {
			q := new(dns.Msg)
			q.SetQuestion(x.name, x.kind)
			c := dns.Client{Net: network, Timeout: time.Minute}
			a, _, err := c.Exchange(q, address)
			if err != nil {
				t.Errorf("%s %s: %v", network, x.name, err)
				continue
			}
			var got []string
			for _, rr := range a.Answer {
				text := rr.String()
				if rr.Header().Rrtype == dns.TypeSRV {
					text = strings.Join(strings.Fields(text)[6:], " ")
				} else {
					text = strings.Join(strings.Fields(text)[4:], " ")
				}
				got = append(got, text)
			}
			slices.Sort(got)
			if a.Rcode != x.rcode || !slices.Equal(got, x.want) {
				t.Errorf("%s %s %s: %s %q, want %s %q", network, x.name, dns.TypeToString[x.kind], dns.RcodeToString[a.Rcode], got, dns.RcodeToString[x.rcode], x.want)
			}
		}
	}
}

// An upstream that is silent holds up those who wait for it, and one of them only up to
// its share; names of the cluster are answered meanwhile.
func TestSilentUpstreamHoldsUpNobodyElse(t *testing.T) {
	_, address := started(t, config(t, `, "maxConcurrent": 8`))
	waiting, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	refused := 0
	for i := range 64 {
		q := new(dns.Msg)
		q.SetQuestion(fmt.Sprintf("a%d.silent.", i), dns.TypeA)
		m, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := waiting.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	// All but the share of this client (2 in flight, of which 1 may wait) are refused at once.
	answer := make([]byte, 512)
	for refused < 63 {
		n, err := waiting.Read(answer)
		if err != nil {
			t.Fatal(err)
		}
		m := new(dns.Msg)
		if err := m.Unpack(answer[:n]); err != nil {
			t.Fatal(err)
		}
		if m.Rcode != dns.RcodeRefused {
			t.Fatalf("answer %d is %s, want it refused", refused, dns.RcodeToString[m.Rcode])
		}
		refused++
	}
	// Another client, which is another address of loopback.
	q := new(dns.Msg)
	q.SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeA)
	c := dns.Client{Timeout: time.Minute, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)}}}
	if a, _, err := c.Exchange(q, address); err != nil || len(a.Answer) != 1 {
		t.Errorf("meanwhile: %v, %v", a, err)
	}
}

// What is no query is no answer and no end.
func TestMalformedPackets(t *testing.T) {
	s, address := started(t, config(t, ""))
	conn, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	for _, packet := range []string{
		"", "x", head, head + "\x3f", head + "\xc0\x0c\x00\x01\x00\x01", head + strings.Repeat("\x3f"+strings.Repeat("a", 63), 8) + "\x00\x00\x01\x00\x01",
		strings.Replace(head, "\x00\x01\x00\x00", "\xff\xff\xff\xff", 1) + "\x00\x00\x01\x00\x01",
		"\x12\x34\x81\x80" + head[4:] + "\x00\x00\x01\x00\x01", // an answer
		strings.Repeat("\xff", 4096),
	} {
		if _, err := conn.Write([]byte(packet)); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.Write([]byte("\xff\xffGET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if status := ready(t, s); !status.Ready {
		t.Errorf("status %+v", status)
	}
}

// A port that another program has is said by name where it was asked for, and left to it
// where it was not.
func TestPortIsTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	s := New(false)
	s.resolvConf = filepath.Join(t.TempDir(), "none")
	socket := serveAPI(t, cluster())
	err = s.Start(t.Context(), options(t, socket, fmt.Sprintf(`{"port": %d}`, port)))
	if err == nil || !strings.Contains(err.Error(), "another program has it") || !strings.Contains(err.Error(), strconv.Itoa(port)) {
		t.Errorf("start: %v", err)
	}
	if s.Status().Ready {
		t.Error("it says that it is ready")
	}
	standard, err := net.ListenPacket("udp", "127.0.0.1:10053")
	if err == nil {
		defer standard.Close()
	}
	got, err := s.port("127.0.0.1", 0)
	if err != nil || got == 10053 || got == 0 {
		t.Errorf("port %d, %v: want a free one in the place of the standard one", got, err)
	}
}

// After a stop the ports are free, and the server can be started again.
func TestStopLeavesNothing(t *testing.T) {
	s := New(false)
	s.resolvConf = filepath.Join(t.TempDir(), "none")
	port, metrics := freePort(t), freePort(t)
	socket := serveAPI(t, cluster())
	for range 2 {
		if err := s.Start(t.Context(), options(t, socket, fmt.Sprintf(`{"port": %d, "metricsPort": %d}`, port, metrics))); err != nil {
			t.Fatal(err)
		}
		if status := ready(t, s); !status.Ready || len(status.Serves) != 3 || int(status.Serves[2].GetPort()) != metrics {
			t.Errorf("status %+v", status)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !strings.Contains(string(text), "coredns_dns_requests_total") {
			t.Errorf("metrics: %v, %d bytes without the count of requests", err, len(text))
		}
		if err := s.Stop(t.Context(), true); err != nil {
			t.Errorf("stop: %v", err)
		}
		if s.Status().Ready {
			t.Error("it says that it is ready after the stop")
		}
		for _, p := range []int{port, metrics} {
			if _, err := free("127.0.0.1", p); err != nil {
				t.Errorf("port %d: %v", p, err)
			}
		}
	}
}

// A Corefile that CoreDNS does not take is an error of the start, and no process ends.
func TestStartSaysWhatIsWrong(t *testing.T) {
	socket := serveAPI(t, cluster())
	for config, want := range map[string]string{
		`{"corefile": ". {\n nonsense\n}"}`:                    "nonsense",
		`{"corefile": ". {\n forward . {\n}\n}"}`:              "forward",
		`{"corefile": ". {\n loop x\n}"}`:                      "loop",
		`{"corefile": ". {\n forward . 1.1.1.1\n bind ::\n}"}`: "bind",
	} {
		s := New(false)
		s.resolvConf = filepath.Join(t.TempDir(), "none")
		if err := s.Start(t.Context(), options(t, socket, config)); err == nil || !strings.Contains(strings.ToLower(err.Error()), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	o := options(t, "", "")
	if err := New(false).Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "socket to the API") {
		t.Errorf("without a socket: %v", err)
	}
}

// The machine's nameservers are asked but for the cluster's own address.
func TestUpstreams(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 10.3.0.10\nnameserver 198.51.100.1\nnameserver fe80::1%eth0\nnameserver here\nsearch a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := parseRanges([]string{"10.3.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := upstreams(file, own, slog.New(slog.DiscardHandler))
	if err != nil || !slices.Equal(got, []string{"198.51.100.1", "fe80::1%eth0"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := upstreams(file+".none", own, slog.New(slog.DiscardHandler)); err != nil || got != nil {
		t.Errorf("no file: %q, %v", got, err)
	}
}

// asked is a question from an address, and what was written to it.
type asked struct {
	dns.ResponseWriter
	from  net.Addr
	wrote int
}

func (a *asked) RemoteAddr() net.Addr      { return a.from }
func (a *asked) WriteMsg(*dns.Msg) error   { a.wrote++; return nil }
func (a *asked) Write([]byte) (int, error) { a.wrote++; return 0, errors.New("not here") }

type handler func(dns.ResponseWriter)

func (handler) Name() string { return "next" }
func (h handler) ServeDNS(_ context.Context, w dns.ResponseWriter, _ *dns.Msg) (int, error) {
	h(w)
	return dns.RcodeSuccess, w.WriteMsg(nil)
}

// A client that is no pod and not the node gets no answer, and no upstream is asked for it.
func TestStrangersGetNoAnswer(t *testing.T) {
	allow, err := parseRanges([]string{"192.0.2.1", "10.244.0.0/24", "fd00::/64"})
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	h := &clients{next: handler(func(dns.ResponseWriter) { passed++ }), allow: allow, flights: newFlights(4)}
	for from, want := range map[string]int{
		"192.0.2.1": 1, "10.244.0.7": 1, "::ffff:10.244.0.7": 1, "fd00::5": 1,
		"192.0.2.2": 0, "10.244.1.7": 0, "8.8.8.8": 0, "fd00:1::5": 0, "::1": 0,
	} {
		for _, addr := range []net.Addr{&net.UDPAddr{IP: net.ParseIP(from), Port: 9}, &net.TCPAddr{IP: net.ParseIP(from), Port: 9}} {
			w := &asked{from: addr}
			passed = 0
			rcode, err := h.ServeDNS(t.Context(), w, new(dns.Msg))
			if err != nil || rcode != dns.RcodeSuccess || passed != want || w.wrote != want {
				t.Errorf("%v: code %d, %v, passed %d, wrote %d, want %d", addr, rcode, err, passed, w.wrote, want)
			}
		}
	}
	if h.all != 0 || len(h.of) != 0 {
		t.Errorf("in flight %d, %v", h.all, h.of)
	}
}

// One client has a share of what is in flight, all of them have the whole.
func TestQueriesInFlightAreBounded(t *testing.T) {
	h := newFlights(8)
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for i, x := range []struct {
		from netip.Addr
		want bool
	}{{a, true}, {a, true}, {a, false}, {b, true}, {b, true}, {b, false}, {netip.MustParseAddr("10.0.0.3"), true}, {netip.MustParseAddr("10.0.0.3"), true}, {netip.MustParseAddr("10.0.0.4"), true}, {netip.MustParseAddr("10.0.0.5"), true}, {netip.MustParseAddr("10.0.0.6"), false}} {
		if got := h.enter(x.from); got != x.want {
			t.Errorf("query %d of %v: %t", i, x.from, got)
		}
	}
	h.leave(a)
	if !h.enter(netip.MustParseAddr("10.0.0.6")) {
		t.Error("there is room again, and it is refused")
	}
}
