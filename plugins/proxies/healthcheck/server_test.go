package healthcheck

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func started(t *testing.T, address string) *Server {
	t.Helper()
	s := New(slog.New(slog.DiscardHandler), address)
	t.Cleanup(s.Close)
	return s
}

// alone moves the test's thread into a network namespace of its own, which ends with it: no
// other test has a port there. What listens and what dials is to be called by the test itself.
func alone(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		t.Fatal(err)
	}
}

func state(port int, endpoints ...*proxy.Endpoint) *proxy.State {
	name := &proxy.ServiceName{Namespace: "default", Name: "web"}
	var s proxy.State
	s.Apply(&proxy.Diff{Generation: 1, Reset_: true, Node: &proxy.Node{}, Changes: []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{Name: name, HealthCheckNodePort: int32(port)}}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{Name: name, Ports: []*proxy.PortEndpoints{
			{PortName: "http", Endpoints: endpoints}, {PortName: "https", Endpoints: endpoints},
		}}}},
	}})
	return &s
}

// free is a port that nothing has, out of those that the system gives to nobody who does
// not ask for them: other tests have sockets at the same time.
func free(t *testing.T) int {
	t.Helper()
	for {
		port := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			l.Close()
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// The answer is kube-proxy's: code, header and body.
func TestServiceHealth(t *testing.T) {
	s, port := started(t, ""), free(t)
	now := time.Unix(1000, 0)
	s.now = func() time.Time { return now }
	check := func(what string, code int, weight, body string) {
		t.Helper()
		resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(port) + "/anything")
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != code || resp.Header.Get("X-Load-Balancing-Endpoint-Weight") != weight || strings.TrimSpace(string(text)) != body ||
			resp.Header.Get("Content-Type") != "application/json" || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v %s", what, resp.StatusCode, resp.Header, text)
		}
	}
	local := func(ip string, ready bool) *proxy.Endpoint { return &proxy.Endpoint{Ip: ip, Local: true, Ready: ready} }
	s.Sync(state(port, local("10.0.0.1", true), local("10.0.0.2", true), local("10.0.0.3", false), &proxy.Endpoint{Ip: "10.0.0.4", Ready: true}))
	check("two", 200, "2", `{"service":{"namespace":"default","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}`)
	s.Queued()
	now = now.Add(timeout)
	check("the proxy does not keep up", 503, "2", `{"service":{"namespace":"default","name":"web"},"localEndpoints":2,"serviceProxyHealthy":false}`)
	s.Updated()
	s.Sync(state(port, local("10.0.0.3", false)))
	check("none", 503, "0", `{"service":{"namespace":"default","name":"web"},"localEndpoints":0,"serviceProxyHealthy":true}`)
	s.Sync(state(0))
	if _, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
		t.Error("the port of a service that has none any more is open")
	}
}

// Each family counts its own endpoints, as kube-proxy's two servers do.
func TestFamiliesHaveTheirOwnCount(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s, port := started(t, ""), free(t)
	local := func(ip string) *proxy.Endpoint { return &proxy.Endpoint{Ip: ip, Local: true, Ready: true} }
	s.Sync(state(port, local("10.0.0.1"), local("10.0.0.2"), local("::ffff:10.0.0.2"), local("fd00::1"), local("nonsense")))
	for host, want := range map[string]string{"127.0.0.1": "2", "::1": "1"} {
		resp, err := http.Get("http://" + net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("X-Load-Balancing-Endpoint-Weight"); got != want {
			t.Errorf("asked at %s: %s endpoints, want %s", host, got, want)
		}
	}
}

// A port that is taken is left to its owner and served once it is free.
func TestTakenPort(t *testing.T) {
	alone(t)
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s, port := started(t, ""), l.Addr().(*net.TCPAddr).Port
	s.Sync(state(port))
	served := func() (n int) {
		for _, svc := range s.services {
			n += len(svc.servers)
		}
		return n
	}
	if served() != 0 {
		t.Error("a taken port counts as served")
	}
	l.Close()
	s.Sync(state(port))
	if served() != 1 {
		t.Error("a port that became free is not served")
	}
}

// TestNodePortAddresses: health checks are served on the addresses of node ports alone, which
// may change; one that this machine does not have harms no other.
func TestNodePortAddresses(t *testing.T) {
	alone(t)
	s, port := started(t, ""), free(t)
	at := netip.MustParseAddr
	open := func(when string, want ...string) {
		t.Helper()
		for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
			conn, err := net.Dial("tcp4", net.JoinHostPort(host, strconv.Itoa(port)))
			if err == nil {
				conn.Close()
			}
			if (err == nil) != slices.Contains(want, host) {
				t.Errorf("%s: asked at %s: %v", when, host, err)
			}
		}
	}
	s.ServeOn(nil)
	s.Sync(state(port))
	open("without an address")
	s.ServeOn([]netip.Addr{at("192.0.2.77"), at("127.0.0.2")})
	open("with one", "127.0.0.2")
	s.Sync(state(port))
	open("with the same again", "127.0.0.2")
	s.ServeOn([]netip.Addr{at("127.0.0.2"), at("127.0.0.3")})
	open("with two", "127.0.0.2", "127.0.0.3")
	s.ServeOn([]netip.Addr{at("127.0.0.1")})
	open("with another", "127.0.0.1")
	s.Sync(state(0))
	open("without the service")
}

// Livez is the proxy's, healthz the node's too.
func TestProxyHealth(t *testing.T) {
	s := started(t, "")
	now := time.Unix(1000, 0).UTC()
	s.now = func() time.Time { return now }
	ask := func(withNode bool) (int, proxyHealth) {
		w := httptest.NewRecorder()
		s.answerProxy(w, withNode)
		var h proxyHealth
		if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil {
			t.Fatal(err)
		}
		return w.Code, h
	}
	for _, step := range []struct {
		name           string
		do             func()
		livez, healthz int
	}{
		{"no node is known", func() {}, 200, 503},
		{"the node is there", func() { s.Sync(state(0)) }, 200, 200},
		{"a change waits", func() { s.Queued(); now = now.Add(timeout - time.Second) }, 200, 200},
		{"it waits too long", func() { s.Queued(); now = now.Add(time.Second) }, 503, 503},
		{"it was made", s.Updated, 200, 200},
		{"the node goes", func() {
			going := state(0)
			going.Node = &proxy.Node{Ineligible: true}
			s.Sync(going)
		}, 200, 503},
	} {
		step.do()
		livez, l := ask(false)
		healthz, h := ask(true)
		if livez != step.livez || healthz != step.healthz || l.NodeEligible != nil || h.NodeEligible == nil {
			t.Errorf("%s: livez %d %+v, healthz %d %+v", step.name, livez, l, healthz, h)
		}
	}
}

// A client that holds a connection open loses it, and gets no second answer on it.
func TestStrangers(t *testing.T) {
	port := free(t)
	s := started(t, "127.0.0.1:"+strconv.Itoa(port))
	var conn net.Conn
	for { // it listens soon
		var err error
		if conn, err = net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	defer conn.Close()
	io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
	answers, err := io.ReadAll(conn)
	if err != nil || strings.Count(string(answers), "HTTP/1.1") != 1 || !strings.HasPrefix(string(answers), "HTTP/1.1 200") {
		t.Errorf("%v: %s", err, answers)
	}
	slow, err := net.Dial("tcp4", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	io.WriteString(slow, "GET /livez HTTP/1.1\r\nX: ")
	slow.SetReadDeadline(time.Now().Add(12 * patience))
	if _, err := io.ReadAll(slow); err != nil {
		t.Errorf("a client that sends slowly is kept: %v", err)
	}
	s.Close()
}

func TestSetAddress(t *testing.T) {
	var none *string
	if err := SetAddress(&none); err != nil || *none != defaultAddress {
		t.Errorf("%v %v", none, err)
	}
	for address, good := range map[string]bool{"": true, "127.0.0.1:1": true, "[::1]:1": true, "10256": false, "host:1": false, ":1": false} {
		p := &address
		if err := SetAddress(&p); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}
