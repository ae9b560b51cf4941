package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	nft "github.com/google/nftables"

	"pintle.dev/pintle/plugins/proxies/iptables"
	"pintle.dev/pintle/plugins/proxies/ipvs"
	"pintle.dev/pintle/plugins/proxies/nftables"
	"pintle.dev/pintle/plugins/proxies/packets"
	"pintle.dev/pintle/plugins/proxies/userspace"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// rulesOf tells whether a proxy has rules on this machine.
func rulesOf(t *testing.T) (byIPTables, byNFTables bool) {
	t.Helper()
	for _, table := range []string{"nat", "filter"} {
		out, err := exec.Command("iptables-save", "-t", table).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		byIPTables = byIPTables || strings.Contains(string(out), "KUBE-")
	}
	conn, err := nft.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := conn.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		byNFTables = byNFTables || strings.HasPrefix(table.Name, "pintle")
	}
	return byIPTables, byNFTables
}

// TestChange: the proxy is another one after a restart that keeps the rules, twice. Each time the
// rules of the one before are gone, an open connection goes on, and new ones are served. The
// last one leaves nothing.
func TestChange(t *testing.T) {
	if !packets.Inside(t) {
		return
	}
	packets.Alone(t)
	listen(t, func(conn net.Conn) {
		go io.Copy(conn, conn) // ends with the connection
	})
	echo := func(conn net.Conn) {
		t.Helper()
		b := make([]byte, 1)
		conn.SetDeadline(time.Now().Add(2 * time.Minute))
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
	}
	var open []net.Conn
	state := t.TempDir()
	kinds := []struct {
		name string
		make func() proxy.Proxy
	}{
		{"nftables", func() proxy.Proxy { return nftables.New(iptables.Remove) }},
		{"iptables", func() proxy.Proxy { return iptables.New(nftables.Remove) }},
		{"nftables", func() proxy.Proxy { return nftables.New(iptables.Remove) }},
	}
	for i, kind := range kinds {
		p := kind.make()
		if err := p.Probe(t.Context(), nil); err != nil {
			t.Skipf("this machine cannot run the proxy %s: %v", kind.name, err)
		}
		start(t, p, state)
		conn, err := net.DialTimeout("tcp", "10.96.0.10:80", time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", kind.name, err)
		}
		defer conn.Close()
		open = append(open, conn)
		for _, c := range open {
			echo(c)
		}
		if byIPTables, byNFTables := rulesOf(t); byIPTables != (kind.name == "iptables") || byNFTables != (kind.name == "nftables") {
			t.Errorf("with the proxy %s: rules of iptables %t, of nftables %t", kind.name, byIPTables, byNFTables)
		}
		last := i == len(kinds)-1
		if err := p.Stop(context.WithoutCancel(t.Context()), last); err != nil {
			t.Fatal(err)
		}
		if !last {
			for _, c := range open {
				echo(c) // the rules stay
			}
		}
	}
	if byIPTables, byNFTables := rulesOf(t); byIPTables || byNFTables {
		t.Errorf("left: rules of iptables %t, of nftables %t", byIPTables, byNFTables)
	}
}

// TestChangeToUserspace: it takes the place of a proxy that kept its rules, and of these none is
// left, so that none leads to an endpoint that is gone.
func TestChangeToUserspace(t *testing.T) {
	if !packets.Inside(t) {
		return
	}
	packets.Alone(t)
	listen(t, func(conn net.Conn) {
		conn.Write([]byte("x"))
		conn.Close()
	})
	state := t.TempDir()
	localhost := func() string {
		data, err := os.ReadFile("/proc/sys/net/ipv4/conf/all/route_localnet")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	for name, p := range map[string]proxy.Proxy{"nftables": nftables.New(), "iptables": iptables.New()} {
		if err := p.Probe(t.Context(), nil); err != nil {
			t.Skipf("this machine cannot run the proxy %s: %v", name, err)
		}
		before := localhost()
		start(t, p, state)
		if err := p.Stop(context.WithoutCancel(t.Context()), false); err != nil {
			t.Fatal(err)
		}
		next := userspace.New(nftables.Remove, iptables.Remove)
		start(t, next, state)
		if _, byNFTables := rulesOf(t); byNFTables {
			t.Errorf("after %s: a table of nftables is left", name)
		}
		out, err := exec.Command("iptables-save").CombinedOutput()
		if err != nil || strings.Contains(string(out), "KUBE-SVC-") || strings.Contains(string(out), "KUBE-SERVICES") {
			t.Errorf("after %s: %v, rules:\n%s", name, err, out)
		}
		if now := localhost(); now != before {
			t.Errorf("after %s: route_localnet is %s, and was %s before", name, now, before)
		}
		conn, err := net.DialTimeout("tcp", "10.96.0.10:80", time.Minute)
		if err != nil {
			t.Fatalf("after %s: %v", name, err)
		}
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
		conn.Close()
		if err := next.Stop(context.WithoutCancel(t.Context()), true); err != nil {
			t.Fatal(err)
		}
	}
}

// listen serves connections to the endpoint of the tests, until the test ends.
func listen(t *testing.T, serve func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", "10.244.0.3:8080")
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
			serve(conn)
		}
	}()
}

// TestPodsOfOneBridge: with any proxy of the kernel's, what pods of one bridge send each other meets
// the rules, also on a kernel that does not have the module for it yet: make test-vm.
func TestPodsOfOneBridge(t *testing.T) {
	if !packets.Inside(t) {
		return
	}
	packets.Alone(t)
	p := nftables.New()
	if err := p.Probe(t.Context(), nil); err != nil {
		t.Skipf("this machine cannot run the proxy: %v", err)
	}
	start(t, p, t.TempDir())
	const file = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	if _, err := os.Stat(file); err != nil {
		t.Skipf("this machine has no module br_netfilter: %v", err)
	}
	if data, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(data)) != "1" {
		t.Errorf("bridge-nf-call-iptables is %q, %v", data, err)
	}
	if err := p.Stop(context.WithoutCancel(t.Context()), true); err != nil {
		t.Error(err)
	}
}

// TestChangeOfIPVS: it takes the place of another proxy, and another one its, without a cleanup.
// Each time what the one before made is gone, and new connections are served. It needs a kernel
// with IPVS: make test-vm.
func TestChangeOfIPVS(t *testing.T) {
	if !packets.Inside(t) {
		return
	}
	packets.Alone(t)
	listen(t, func(conn net.Conn) {
		conn.Write([]byte("x"))
		conn.Close()
	})
	state := t.TempDir()
	names := []string{"nftables", "ipvs", "userspace", "ipvs", "nftables"}
	for i, name := range names {
		p := map[string]proxy.Proxy{
			"nftables": nftables.New(ipvs.Remove), "ipvs": ipvs.New(nftables.Remove), "userspace": userspace.New(nftables.Remove, ipvs.Remove),
		}[name]
		if err := p.Probe(t.Context(), nil); err != nil {
			t.Skipf("this machine cannot run the proxy %s: %v", name, err)
		}
		start(t, p, state)
		conn, err := net.DialTimeout("tcp", "10.96.0.10:80", time.Minute)
		if err != nil {
			t.Fatalf("%d, %s: %v", i, name, err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "x" {
			t.Errorf("%d, %s: %q, %v", i, name, got, err)
		}
		conn.Close()
		is := func(what, program string) bool {
			data, err := os.ReadFile(what)
			return err == nil && strings.Contains(string(data), program)
		}
		if device, servers := is("/proc/net/dev", "pintle-ipvs0"), is("/proc/net/ip_vs", "0A60000A:0050"); device != (name == "ipvs") || servers != (name == "ipvs") {
			t.Errorf("%d, %s: the device of ipvs %t, its virtual server %t", i, name, device, servers)
		}
		conns, err := nft.New()
		if err != nil {
			t.Fatal(err)
		}
		tables, err := conns.ListTables()
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range tables {
			if strings.HasPrefix(table.Name, "pintle") && table.Name != map[string]string{"nftables": "pintle-proxy", "ipvs": "pintle-ipvs"}[name] {
				t.Errorf("%d, %s: the table %s", i, name, table.Name)
			}
		}
		if err := p.Stop(context.WithoutCancel(t.Context()), i == len(names)-1); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile("/proc/sys/net/ipv4/vs/conntrack"); err != nil || strings.TrimSpace(string(data)) != "0" {
		t.Errorf("net.ipv4.vs.conntrack is %q, %v", data, err)
	}
}

func start(t *testing.T, p proxy.Proxy, state string) {
	t.Helper()
	if err := p.Start(t.Context(), proxy.Options{
		NodeName: "n", NodeIPs: []string{"10.244.0.2"}, ClusterCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
		StateDirectory: state, Config: []byte(`{"healthzBindAddress":""}`), Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	name := &proxy.ServiceName{Namespace: "d", Name: "s"}
	if err := p.Apply(t.Context(), &proxy.Diff{Generation: 1, Reset_: true, Changes: []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &proxy.Service{Name: name, ClusterIps: []string{"10.96.0.10"}, Ports: []*proxy.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}}}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{Name: name, Ports: []*proxy.PortEndpoints{
			{PortName: "http", Protocol: "TCP", Endpoints: []*proxy.Endpoint{{Ip: "10.244.0.3", Port: 8080, Ready: true, Serving: true, Local: true}}},
		}}}},
	}}); err != nil {
		t.Fatal(err)
	}
}
