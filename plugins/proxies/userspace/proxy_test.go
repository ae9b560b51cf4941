package userspace

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freePort is one that nothing has, out of those that the system gives to nobody who does
// not ask for them: other tests have sockets at the same time.
func freePort(t *testing.T, network string) int {
	t.Helper()
	for {
		port := 20000 + rand.IntN(10000)
		address := "127.0.0.1:" + strconv.Itoa(port)
		var c io.Closer
		var err error
		if network == "udp" {
			c, err = net.ListenPacket("udp4", address)
		} else {
			c, err = net.Listen("tcp4", address)
		}
		if err == nil {
			c.Close()
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

func diff(generation uint64, protocol string, nodePort int, affinity string, endpoints ...string) *proxy.Diff {
	name := &proxy.ServiceName{Namespace: "default", Name: "web"}
	var list []*proxy.Endpoint
	for _, e := range endpoints {
		host, p, _ := net.SplitHostPort(e)
		n, _ := strconv.Atoi(p)
		list = append(list, &proxy.Endpoint{Ip: host, Port: int32(n), Ready: true, Serving: true})
	}
	return &proxy.Diff{Generation: generation, Reset_: generation == 1, Changes: []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{
			Name: name, Type: "NodePort", ClusterIps: []string{"10.96.0.10"}, SessionAffinity: affinity,
			Ports: []*proxy.ServicePort{{Name: "p", Protocol: protocol, Port: 80, NodePort: int32(nodePort)}},
		}}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
			Name: name, Ports: []*proxy.PortEndpoints{{PortName: "p", Protocol: protocol, Endpoints: list}},
		}}},
	}}
}

func started(t *testing.T) *Proxy {
	t.Helper()
	p := New()
	p.portalsFor = func(string) portals { return noPortals{} }
	if err := p.Start(t.Context(), proxy.Options{Logger: slog.New(slog.DiscardHandler), NodeIPs: []string{"127.0.0.1"}, Config: []byte(`{"healthzBindAddress":""}`)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
	})
	return p
}

func backend(t *testing.T, answer string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func get(t *testing.T, nodePort int) string {
	t.Helper()
	client := http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", nodePort))
	if err != nil {
		return "error"
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// FLO-6, PUS-6, PUS-7: requests go round, an endpoint that does not answer is
// passed over, a removed service closes its port.
func TestNodePortTCP(t *testing.T) {
	p, nodePort := started(t), freePort(t, "tcp")
	a, b := backend(t, "a"), backend(t, "b")
	if err := p.Apply(t.Context(), diff(1, "TCP", nodePort, "None", a, b)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for range 4 {
		seen[get(t, nodePort)]++
	}
	if seen["a"] != 2 || seen["b"] != 2 {
		t.Errorf("four requests went to %v", seen)
	}
	const dead = "127.0.0.1:1"
	if err := p.Apply(t.Context(), diff(2, "TCP", nodePort, "None", a, dead)); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if got := get(t, nodePort); got != "a" {
			t.Errorf("with one dead endpoint: %q", got)
		}
	}
	if err := p.Apply(t.Context(), diff(3, "TCP", nodePort, "ClientIP", a, b)); err != nil {
		t.Fatal(err)
	}
	first := get(t, nodePort)
	for range 4 {
		if got := get(t, nodePort); got != first {
			t.Errorf("sticky client moved from %q to %q", first, got)
		}
	}
	gone := &proxy.Diff{Generation: 4, Changes: []*proxy.Change{{Change: &contractv1.ProxyChange_ServiceRemove{ServiceRemove: &proxy.ServiceName{Namespace: "default", Name: "web"}}}}}
	if err := p.Apply(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if got := get(t, nodePort); got != "error" {
		t.Errorf("after removal: %q", got)
	}
}

func TestNodePortUDP(t *testing.T) {
	p, nodePort := started(t), freePort(t, "udp")
	echo, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 100)
		for {
			n, from, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			echo.WriteTo(buf[:n], from)
		}
	}()
	defer func() { echo.Close(); <-done }()
	if err := p.Apply(t.Context(), diff(1, "UDP", nodePort, "None", echo.LocalAddr().String())); err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", nodePort))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "hello" {
		t.Errorf("%q, %v", buf[:n], err)
	}
}

// A node port that another program has is said by name, and a later diff
// opens it once it is free.
func TestTakenNodePort(t *testing.T) {
	p := started(t)
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	nodePort := l.Addr().(*net.TCPAddr).Port
	a := backend(t, "a")
	err = p.Apply(t.Context(), diff(1, "TCP", nodePort, "None", a))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("node port %d", nodePort)) {
		t.Errorf("got %v", err)
	}
	l.Close()
	if err := p.Apply(t.Context(), diff(2, "TCP", nodePort, "None", a)); err != nil {
		t.Fatal(err)
	}
	if got := get(t, nodePort); got != "a" {
		t.Errorf("got %q", got)
	}
}
