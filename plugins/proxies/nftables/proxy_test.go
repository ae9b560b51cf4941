package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/sdk/proxy"
)

// started is a proxy over a model, without a server for its health.
func started(t *testing.T, k kernel, config string) *Proxy {
	t.Helper()
	p := &Proxy{kernel: k, proc: t.TempDir(), flows: conntrack.ForgetterBy(func(conntrack.Family, *conntrack.Stale) error { return nil })}
	p.addresses = func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("10.244.0.1"), netip.MustParseAddr("fd00::1")}, nil
	}
	if config == "" {
		config = `{"healthzBindAddress":"","syncPeriod":"24h"}`
	}
	if err := p.Start(t.Context(), proxy.Options{
		NodeName: "n", NodeIPs: []string{"192.0.2.10"}, ClusterCIDRs: []string{"10.244.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"},
		StateDirectory: t.TempDir(), Config: []byte(config), Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.WithoutCancel(t.Context()), false); err != nil {
			t.Error(err)
		}
	})
	return p
}

func apply1(t *testing.T, p *Proxy, changes ...*proxy.Change) {
	t.Helper()
	if err := p.Apply(t.Context(), &proxy.Diff{Generation: p.state.Generation + 1, Reset_: p.state.Generation == 0, Changes: changes}); err != nil {
		t.Fatal(err)
	}
}

func numbered(i int) proxy.Name { return proxy.Name{Namespace: "d", Name: fmt.Sprintf("s%05d", i)} }

// many services with two endpoints each, none of which is on this node.
func services(n int, change func(*proxy.Service)) []*proxy.Change {
	var out []*proxy.Change
	for i := range n {
		s := &proxy.Service{
			Name: &proxy.ServiceName{Namespace: "d", Name: numbered(i).Name}, Type: "ClusterIP", ClusterIps: []string{fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250)},
			SessionAffinity: "None", InternalTrafficPolicy: "Cluster", Ports: []*proxy.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		}
		if change != nil {
			change(s)
		}
		out = append(out, serviceSet(s), endpointsSet(numbered(i), "TCP", podOf(i, 0), podOf(i, 1)))
	}
	return out
}

func podOf(service, n int) string {
	return fmt.Sprintf("10.%d.%d.%d", 128+n, service/250, 1+service%250)
}

// TestFewElements: whatever there is, a change sends what it changes and reads nothing.
func TestFewElements(t *testing.T) {
	k := newModel()
	p := started(t, k, "")
	apply1(t, p, services(1000, nil)...)
	if elements, chains, _ := k.changes(); elements != 4*1000 || chains != 1 {
		t.Errorf("at first %d elements and %d chains", elements, chains)
	}
	steps := []struct {
		name             string
		change           []*proxy.Change
		elements, chains int
	}{
		{"the same again", []*proxy.Change{endpointsSet(numbered(7), "TCP", podOf(7, 0), podOf(7, 1))}, 0, 0},
		{"an endpoint moves", []*proxy.Change{endpointsSet(numbered(7), "TCP", podOf(7, 0), podOf(7, 5))}, 1, 0},
		{"a third endpoint", []*proxy.Change{endpointsSet(numbered(9), "TCP", podOf(9, 0), podOf(9, 1), podOf(9, 2))}, 2, 1},
		{"it goes", []*proxy.Change{endpointsSet(numbered(9), "TCP", podOf(9, 0), podOf(9, 1))}, 2, 0},
		{"it comes once more", []*proxy.Change{endpointsSet(numbered(9), "TCP", podOf(9, 0), podOf(9, 1), podOf(9, 2))}, 2, 0},
		{"all go", []*proxy.Change{endpointsSet(numbered(10), "TCP")}, 4, 0}, // two endpoints, a verdict, and the refusal
		{"a service goes", serviceRemove(numbered(11)), 4, 0},
	}
	reads := k.reads
	for _, s := range steps {
		k.history = nil
		apply1(t, p, s.change...)
		if elements, chains, text := k.changes(); elements != s.elements || chains != s.chains || len(k.history) > 1 {
			t.Errorf("%s: %d elements and %d chains in %d transactions, want %d and %d in one:\n%s", s.name, elements, chains, len(k.history), s.elements, s.chains, text)
		}
	}
	k.history = nil
	p.check(t.Context())
	if k.reads != reads || len(k.history) > 0 {
		t.Errorf("a period in which nothing happened: %d reads, %d transactions", k.reads-reads, len(k.history))
	}
}

// TestHealing: whatever others do to the table, the next period has it as it should be; one in
// which a transaction fails finds it at once.
func TestHealing(t *testing.T) {
	for name, harm := range map[string]func(*modelTable) *modelTable{
		"an element goes": func(m *modelTable) *modelTable {
			for i := range m.elements {
				delete(m.elements, i)
				return m
			}
			return m
		},
		"one is changed": func(m *modelTable) *modelTable {
			for i, value := range m.elements {
				if i.set() == serviceIPs {
					m.elements[i] = verdictDrop + value
					return m
				}
			}
			return m
		},
		"one is added": func(m *modelTable) *modelTable { m.elements[newItem(clusterIPs, []byte{1, 2, 3, 4})] = ""; return m },
		"a chain is added": func(m *modelTable) *modelTable {
			m.chains["x/y"], m.maps[affinityPrefix+"x"] = chain{name: "x/y"}, true
			return m
		},
		"a chain goes": func(m *modelTable) *modelTable { clear(m.chains); return m },
		"all is gone":  func(*modelTable) *modelTable { return nil },
		"it is another's": func(m *modelTable) *modelTable {
			m.foreign = true
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newModel()
			p := started(t, k, "")
			apply1(t, p, services(20, nil)...)
			want, chains := maps.Clone(k.tables[ipv4].elements), slices.Sorted(maps.Keys(k.tables[ipv4].chains))
			if k.tables[ipv4] = harm(k.tables[ipv4]); k.tables[ipv4] == nil {
				delete(k.tables, ipv4)
			}
			k.number++
			p.check(t.Context())
			if m := k.tables[ipv4]; m == nil || m.foreign || !maps.Equal(m.elements, want) || !slices.Equal(slices.Sorted(maps.Keys(m.chains)), chains) || len(m.maps) > 0 {
				t.Errorf("after a period: %+v", m)
			}
			reads := k.reads
			p.check(t.Context())
			if k.reads != reads {
				t.Error("the table is read again though nobody changed it")
			}
		})
	}
	t.Run("in a change", func(t *testing.T) {
		k := newModel()
		p := started(t, k, "")
		apply1(t, p, services(3, nil)...)
		delete(k.tables, ipv4)
		k.number++
		apply1(t, p, endpointsSet(numbered(1), "TCP", podOf(1, 7)))
		if got := texts(ipv4, k.tables[ipv4].elements); len(got) != 11 || !slices.Contains(got, "endpoints 10.96.0.2 tcp 80 #0 → 10.135.0.2 8080") {
			t.Errorf("got %v", got)
		}
	})
}

// TestNothingToMend: where others changed their own tables, ours are read and nothing is
// written; else two programs that look at the generation wake each other without end. Where
// something differs, that alone is written.
func TestNothingToMend(t *testing.T) {
	k := newModel()
	p := started(t, k, "")
	apply1(t, p, services(20, func(s *proxy.Service) { s.SessionAffinity = "ClientIP" })...)
	for _, step := range []struct {
		name   string
		harm   func(*modelTable)
		writes bool
		layout bool
		chains int
	}{
		{"another's table", func(*modelTable) {}, false, false, 0},
		{"a rule of the layout", func(m *modelTable) { m.layout = false }, true, true, 0},
		{"a rule of a chain", func(m *modelTable) { delete(m.written, slices.Sorted(maps.Keys(m.chains))[0]) }, true, false, 1},
		{"another's table again", func(*modelTable) {}, false, false, 0},
	} {
		step.harm(k.tables[ipv4])
		k.number++
		k.history = nil
		number, reads := k.number, k.reads
		p.check(t.Context())
		if k.reads == reads {
			t.Errorf("%s: the table is not read", step.name)
		}
		elements, chains, text := k.changes()
		if elements != 0 || chains != step.chains || (k.number != number) != step.writes {
			t.Errorf("%s: generation %d, then %d, and written:\n%s", step.name, number, k.number, text)
		}
		if len(k.history) > 0 && k.history[0].layout != step.layout {
			t.Errorf("%s: the layout is written %t", step.name, k.history[0].layout)
		}
	}
}

// TestLocalhostOpensLast: packets to 127.0.0.1 leave to pods when the rules are there that guard
// the address, and not before (CVE-2020-8558).
func TestLocalhostOpensLast(t *testing.T) {
	k := newModel()
	p := started(t, k, "")
	file := filepath.Join(p.proc, "net/ipv4/conf/all/route_localnet")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("0"), 0o644); err != nil {
		t.Fatal(err)
	}
	is := func(when, want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: route_localnet is %q (%v), want %q", when, got, err, want)
		}
	}
	o := proxy.Options{NodeName: "n", ServiceCIDRs: []string{"10.96.0.0/16"}, StateDirectory: t.TempDir(), Config: []byte(quiet), Logger: slog.New(slog.DiscardHandler)}
	if err := p.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	is("after the start", "0")
	k.refuse = func(transaction) error { return errors.New("busy") }
	if err := p.Apply(t.Context(), &proxy.Diff{Generation: 1, Reset_: true}); err == nil {
		t.Error("no error")
	}
	is("without rules", "0")
	k.refuse = nil
	apply1(t, p, services(1, nil)...)
	is("with rules", "1")
	if err := p.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	is("after a clean stop", "0")
}

// TestRefused: while the kernel takes nothing the old rules stay, the state says why, and what
// came meanwhile is there when it takes something again.
func TestRefused(t *testing.T) {
	k := newModel()
	p := started(t, k, "")
	apply1(t, p, services(2, nil)...)
	want := maps.Clone(k.tables[ipv4].elements)
	k.refuse = func(transaction) error { return errors.New("no space left") }
	err := p.Apply(t.Context(), &proxy.Diff{Generation: 2, Changes: []*proxy.Change{endpointsSet(numbered(0), "TCP", podOf(0, 8))}})
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
	if s := p.Status(); s.Ready || !strings.Contains(s.Message, "no space left") || !maps.Equal(k.tables[ipv4].elements, want) {
		t.Errorf("status %+v", s)
	}
	// It takes a table anew, and no change of the old one.
	k.refuse = func(t transaction) error {
		if !t.rebuild {
			return errors.New("device busy")
		}
		return nil
	}
	p.check(t.Context())
	if s := p.Status(); !s.Ready || s.Services != 2 || s.Endpoints != 3 {
		t.Errorf("status %+v", s)
	}
	if got := texts(ipv4, k.tables[ipv4].elements); !slices.Contains(got, "endpoints 10.96.0.1 tcp 80 #0 → 10.136.0.1 8080") || len(got) != 7 {
		t.Errorf("got %v", got)
	}
}

// TestRestart: a proxy that comes after another takes its table over, and sends what differs.
func TestRestart(t *testing.T) {
	k := newModel()
	sticky := func(s *proxy.Service) { s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "ClientIP", 600 }
	p := started(t, k, "")
	apply1(t, p, services(50, sticky)...)
	k.history = nil
	k.tables[ipv4].layout, k.tables[ipv4].written = false, nil // by another process
	next := started(t, k, "")
	apply1(t, next, services(49, sticky)...)
	if elements, chains, text := k.changes(); elements != 6 || chains != 49 {
		t.Errorf("%d elements and %d chains:\n%s", elements, chains, text)
	}
	next.check(t.Context())
	if m := k.tables[ipv4]; len(m.chains) != 49 || len(m.maps) != 49 {
		t.Errorf("%d chains and %d maps are left", len(m.chains), len(m.maps))
	}
	// Another time of affinity is another map, and the old one goes.
	longer := services(1, func(s *proxy.Service) { sticky(s); s.SessionAffinityTimeoutSeconds = 700 })
	apply1(t, next, longer...)
	next.check(t.Context())
	if m := k.tables[ipv4]; len(m.chains) != 49 || len(m.maps) != 49 {
		t.Errorf("%d chains and %d maps are left", len(m.chains), len(m.maps))
	}
	if err := next.Stop(t.Context(), true); err != nil || len(k.tables) > 0 {
		t.Errorf("%v, tables %v", err, k.tables)
	}
}

// TestNodePortAddresses: they are elements, follow the machine's, and those of the other family
// are in its table.
func TestNodePortAddresses(t *testing.T) {
	for config, want := range map[string]string{
		``:                                "",
		`"nodePortAddresses":["primary"]`: "nodeport-ips 192.0.2.10",
		`"nodePortAddresses":["10.0.0.0/8","192.0.2.0/24","fd00::/8"]`: "nodeport-ips 10.244.0.1 nodeport-ips 192.0.2.10",
		`"nodePortAddresses":["198.51.100.0/24"]`:                      "",
	} {
		k := newModel()
		if config != "" {
			config += ","
		}
		p := started(t, k, `{`+config+`"healthzBindAddress":"","syncPeriod":"24h"}`)
		apply1(t, p, services(1, nil)...)
		is := func() string {
			return strings.Join(slices.DeleteFunc(texts(ipv4, k.tables[ipv4].elements), func(s string) bool { return !strings.HasPrefix(s, "nodeport-ips") }), " ")
		}
		if got := is(); got != want {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
		if k.tables[ipv6] != nil {
			t.Errorf("%s: there is a table of IPv6 without a service", config)
		}
		p.addresses = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.0.2.11")}, nil }
		p.check(t.Context())
		if got := is(); strings.Contains(config, "192.0.2.0/24") && got != "nodeport-ips 192.0.2.11" {
			t.Errorf("%s: after the machine's address changed: %s", config, got)
		}
	}
}

// TestMinSyncPeriod holds changes back, and gives up with its caller.
func TestMinSyncPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newModel()
		p := started(t, k, `{"healthzBindAddress":"","minSyncPeriod":"20s"}`)
		apply1(t, p, services(1, nil)...)
		begin := time.Now()
		apply1(t, p, endpointsSet(numbered(0), "TCP", podOf(0, 8)))
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("the second change took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Apply(ctx, &proxy.Diff{Generation: 3}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestOthersGo: what another proxy left is removed once everything is served, and again where
// that failed.
func TestOthersGo(t *testing.T) {
	k := newModel()
	p := started(t, k, "")
	var calls int
	fail := errors.New("busy")
	p.others = []func(context.Context) error{func(context.Context) error {
		if calls++; k.tables[ipv4] == nil {
			t.Error("removed before this one serves")
		}
		return fail
	}}
	apply1(t, p, services(1, nil)...)
	fail = nil
	apply1(t, p, endpointsSet(numbered(0), "TCP", podOf(0, 8)))
	apply1(t, p, endpointsSet(numbered(0), "TCP", podOf(0, 7)))
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// nowhere takes everything and keeps nothing.
type nowhere struct{ model }

func (n *nowhere) read(*family) (found, error)                 { return found{}, nil }
func (n *nowhere) commit(*family, settings, transaction) error { n.committed(); return nil }

// TestMemory: 10,000 services at once, each with as many annotations as the API lets through,
// take some kilobytes each.
func TestMemory(t *testing.T) {
	const count = 10_000
	p := started(t, &nowhere{model{number: 1}}, "")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for from := 0; from < count; from += 1000 {
		changes := services(from+1000, func(s *proxy.Service) { s.Annotations = nil })[2*from:]
		for _, c := range changes {
			if s := c.GetServiceSet(); s != nil {
				s.Annotations = map[string]string{"x": strings.Repeat("y", 20_000)}
				s.Labels = map[string]string{"z": strings.Repeat("y", 20_000)}
			}
		}
		apply1(t, p, changes...)
	}
	after := heap()
	if each := (int64(after) - int64(before)) / count; each > 6000 {
		t.Errorf("%d bytes a service", each)
	}
	if s := p.Status(); s.Services != count || s.Endpoints != 2*count {
		t.Errorf("status %+v", s)
	}
	runtime.KeepAlive(p)
}

// TestFlowsWait: UDP flows are forgotten when the tables have what replaces them, also where
// that took a second try.
func TestFlowsWait(t *testing.T) {
	synctest.Test(t, flowsWait) // looking for flows takes no time, so that none waits for another
}

func flowsWait(t *testing.T) {
	k := newModel()
	p := started(t, k, "")
	var forgotten []string
	var fail error
	p.flows = conntrack.ForgetterBy(func(f conntrack.Family, gone *conntrack.Stale) error {
		if p.mu.TryLock() {
			p.mu.Unlock()
		} else {
			t.Error("the state is locked while flows are deleted")
		}
		for front, endpoints := range gone.Fronts() {
			forgotten = append(forgotten, fmt.Sprintf("%s %s %d", f, front, len(endpoints)))
		}
		return fail
	})
	udp := services(1, func(s *proxy.Service) { s.Ports[0].Protocol = "UDP" })[:1]
	apply1(t, p, append(udp, endpointsSet(numbered(0), "UDP", podOf(0, 0)))...)
	same(t, "at first", forgotten, []string{"IPv4 10.96.0.1:80 1"})
	forgotten = nil
	apply1(t, p, endpointsSet(numbered(0), "UDP", podOf(0, 0)))
	same(t, "without a change", forgotten, nil)
	k.refuse = func(transaction) error { return errors.New("busy") }
	if err := p.Apply(t.Context(), &proxy.Diff{Generation: 3, Changes: []*proxy.Change{endpointsSet(numbered(0), "UDP", podOf(0, 1), podOf(0, 2))}}); err == nil {
		t.Error("no error")
	}
	same(t, "before the tables have it", forgotten, nil)
	k.refuse = nil
	apply1(t, p, endpointsSet(numbered(0), "UDP", podOf(0, 1), podOf(0, 2)))
	same(t, "after a second try", forgotten, []string{"IPv4 10.96.0.1:80 2"})
	// What could not be forgotten is with the next look, once.
	forgotten, fail = nil, errors.New("there are more")
	apply1(t, p, endpointsSet(numbered(0), "UDP", podOf(0, 3)))
	same(t, "where it fails", forgotten, []string{"IPv4 10.96.0.1:80 1"})
	forgotten, fail = nil, nil
	p.check(t.Context())
	same(t, "with the next look", forgotten, []string{"IPv4 10.96.0.1:80 1"})
	forgotten = nil
	p.check(t.Context())
	same(t, "after that", forgotten, nil)
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

// TestHealthCheckAddresses: health checks of services are served where node ports are.
func TestHealthCheckAddresses(t *testing.T) {
	alone(t)
	p := started(t, newModel(), `{"healthzBindAddress":"","syncPeriod":"24h","nodePortAddresses":["127.0.0.2/32"]}`)
	p.addresses = func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}, nil
	}
	const port = 30123
	apply1(t, p, services(1, func(s *proxy.Service) { s.ExternalTrafficPolicy, s.HealthCheckNodePort = "Local", port })...)
	for host, want := range map[string]bool{"127.0.0.1": false, "127.0.0.2": true} {
		conn, err := net.Dial("tcp4", net.JoinHostPort(host, fmt.Sprint(port)))
		if err == nil {
			conn.Close()
		}
		if (err == nil) != want {
			t.Errorf("asked at %s: %v, want an answer: %t", host, err, want)
		}
	}
}
