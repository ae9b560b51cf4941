package iptables

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// inNamespace moves the test's thread into a network namespace of its own. The
// thread is never unlocked, so that it ends with the test and takes the
// namespace with it.
func inNamespace(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a network namespace")
	}
	if err := probe(t.Context()); err != nil {
		t.Skipf("this machine cannot run the iptables proxy: %v", err)
	}
	runtime.LockOSThread()
	// The mount namespace gives /sys and /proc/sys/net of the new network.
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	for _, cmd := range []string{
		"ip link set lo up",
		"ip link add pods type bridge",
		"ip addr add 10.244.0.2/24 dev pods",
		"ip addr add 10.244.0.3/24 dev pods",
		"ip link set pods up",
		"ip route add 10.96.0.0/16 dev pods",
	} {
		if out, err := exec.Command("sh", "-c", cmd).CombinedOutput(); err != nil {
			t.Skipf("%s: %v: %s", cmd, err, out)
		}
	}
}

// TestPackets sends real packets through the rules: to the cluster IP, to the
// node port, and to a service without endpoints. Nothing is left after Stop.
func TestPackets(t *testing.T) {
	inNamespace(t)
	for _, ip := range []string{"10.244.0.2", "10.244.0.3"} {
		l, err := net.Listen("tcp4", ip+":8080")
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, ip) })}
		go srv.Serve(l)
		defer srv.Close()
	}
	get := func(address string) string {
		// A plain dial on this thread: http.Client would dial on another one,
		// which is not in the namespace.
		d := net.Dialer{Timeout: time.Minute}
		conn, err := d.Dial("tcp4", address)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		body, _ := io.ReadAll(conn)
		return string(body[strings.LastIndex(string(body), "\n")+1:])
	}
	p := New()
	if err := p.Start(t.Context(), proxy.Options{Logger: slog.New(slog.DiscardHandler), StateDirectory: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	name := &proxy.ServiceName{Namespace: "default", Name: "web"}
	service := &proxy.Change{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{
		Name: name, Type: "NodePort", ClusterIps: []string{"10.96.0.10"}, SessionAffinity: "None",
		Ports: []*proxy.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, NodePort: 30080}},
	}}}
	endpoints := func(ips ...string) *proxy.Change {
		var list []*proxy.Endpoint
		for _, ip := range ips {
			list = append(list, &proxy.Endpoint{Ip: ip, Port: 8080, Ready: true})
		}
		return &proxy.Change{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
			Name: name, Ports: []*proxy.PortEndpoints{{PortName: "http", Protocol: "TCP", Endpoints: list}},
		}}}
	}
	apply := func(generation uint64, changes ...*proxy.Change) {
		t.Helper()
		if err := p.Apply(t.Context(), &proxy.Diff{Generation: generation, Reset_: generation == 1, Changes: changes}); err != nil {
			t.Fatal(err)
		}
	}

	apply(1, service, endpoints("10.244.0.2", "10.244.0.3"))
	seen := map[string]bool{}
	for range 64 { // PIT-31: random, so both within 64 tries but for one in 2^63
		seen[get("10.96.0.10:80")] = true
	}
	if !seen["10.244.0.2"] || !seen["10.244.0.3"] || len(seen) != 2 {
		t.Errorf("cluster IP answers: %v", seen)
	}
	for _, address := range []string{"10.244.0.2:30080", "127.0.0.1:30080"} {
		if got := get(address); !strings.HasPrefix(got, "10.244.0.") {
			t.Errorf("node port at %s answers %q", address, got)
		}
	}
	apply(2, endpoints("10.244.0.3"))
	for range 8 {
		if got := get("10.96.0.10:80"); got != "10.244.0.3" {
			t.Errorf("after the first endpoint went: %q", got)
		}
	}
	apply(3, endpoints()) // PIT-24
	if got := get("10.96.0.10:80"); !strings.Contains(got, "refused") {
		t.Errorf("without endpoints: %q", got)
	}
	// Somebody flushes everything; the next full sync brings it back.
	apply(4, endpoints("10.244.0.2"))
	if out, err := exec.Command("iptables", "-t", "nat", "-F").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.mu.Lock()
	p.nat, p.filter = nil, nil
	err := p.sync(t.Context())
	p.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if got := get("10.96.0.10:80"); got != "10.244.0.2" {
		t.Errorf("after a flush and a sync: %q", got)
	}
	if err := p.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nat", "filter"} {
		out, err := (tools{}).save(t.Context(), name)
		if err != nil || strings.Contains(out, "KUBE-") {
			t.Errorf("left behind in %s: %v\n%s", name, err, out)
		}
	}
}
