package ipvs

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	"pintle.dev/pintle/sdk/proxy"
)

func outward(s *proxy.Service) {
	s.ExternalIps, s.LoadBalancerIps = []string{"203.0.113.7"}, []string{"203.0.113.8"}
	s.Ports[0].NodePort = 30080
}

// TestServices: what the kernel has for one service.
func TestServices(t *testing.T) {
	for _, tc := range []struct {
		name, config, protocol string
		change                 func(*proxy.Service)
		endpoints              []string
		want                   []string
	}{
		{name: "cluster IP", endpoints: []string{"10.244.0.2*", "10.244.1.2"}, want: []string{
			"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80", "hairpins 10.244.0.2 10.244.0.2 6 8080",
			"server 10.96.0.10:80/6 rr 0: 10.244.0.2:8080*1 10.244.1.2:8080*1",
		}},
		{name: "no endpoint", want: []string{
			"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80", "refusals 10.96.0.10 6 80 → reject-chain",
			"server 10.96.0.10:80/6 rr 0: ",
		}},
		{name: "internal Local, none here", change: func(s *proxy.Service) { s.InternalTrafficPolicy = "Local" }, endpoints: []string{"10.244.1.2"}, want: []string{
			"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80", "refusals 10.96.0.10 6 80 → drop",
			"server 10.96.0.10:80/6 rr 0: ",
		}},
		{name: "affinity, another scheduler", config: `{"scheduler":"mh","healthzBindAddress":""}`, protocol: "UDP", endpoints: []string{"10.244.1.2"},
			change: func(s *proxy.Service) { s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "ClientIP", 60 }, want: []string{
				"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 17 80", "fronts 10.96.0.10 17 80",
				"server 10.96.0.10:80/17 mh 60: 10.244.1.2:8080*1",
			}},
		{name: "for outside", change: outward, endpoints: []string{"10.244.1.2"}, want: []string{
			"address 10.96.0.10", "address 203.0.113.7", "address 203.0.113.8", "bound 10.96.0.10", "bound 203.0.113.7", "bound 203.0.113.8",
			"cluster-fronts 10.96.0.10 6 80", "everywhere-fronts 10.244.0.1 6 30080", "everywhere-fronts 192.0.2.10 6 30080", "everywhere-fronts 203.0.113.7 6 80", "everywhere-fronts 203.0.113.8 6 80",
			"fronts 10.244.0.1 6 30080", "fronts 10.96.0.10 6 80", "fronts 192.0.2.10 6 30080", "fronts 203.0.113.7 6 80", "fronts 203.0.113.8 6 80",
			"server 10.244.0.1:30080/6 rr 0: 10.244.1.2:8080*1", "server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1", "server 192.0.2.10:30080/6 rr 0: 10.244.1.2:8080*1",
			"server 203.0.113.7:80/6 rr 0: 10.244.1.2:8080*1", "server 203.0.113.8:80/6 rr 0: 10.244.1.2:8080*1",
		}},
		{name: "external Local: pods and this node use all", config: `{"nodePortAddresses":["primary"],"healthzBindAddress":""}`, endpoints: []string{"10.244.0.2*", "10.244.1.2"},
			change: func(s *proxy.Service) {
				s.ExternalTrafficPolicy, s.Ports[0].NodePort = "Local", 30080
			}, want: []string{
				"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80", "fronts 192.0.2.10 6 30080",
				"hairpins 10.244.0.2 10.244.0.2 6 8080", "hairpins 10.244.1.2 10.244.1.2 6 8080", "inside 192.0.2.10 6 30080 → mark",
				"server 10.96.0.10:80/6 rr 0: 10.244.0.2:8080*1 10.244.1.2:8080*1", "server 192.0.2.10:30080/6 rr 0: 10.244.0.2:8080*1", "server mark rr 0: 10.244.0.2:8080*1 10.244.1.2:8080*1",
			}},
		{name: "external Local with affinity", config: `{"nodePortAddresses":["primary"],"healthzBindAddress":""}`, endpoints: []string{"10.244.0.2*"},
			change: func(s *proxy.Service) {
				s.ExternalTrafficPolicy, s.Ports[0].NodePort, s.SessionAffinity, s.SessionAffinityTimeoutSeconds = "Local", 30080, "ClientIP", 60
			}, want: []string{
				"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80", "fronts 192.0.2.10 6 30080",
				"hairpins 10.244.0.2 10.244.0.2 6 8080", "inside 192.0.2.10 6 30080 → mark",
				"server 10.96.0.10:80/6 rr 60: 10.244.0.2:8080*1", "server 192.0.2.10:30080/6 rr 60: 10.244.0.2:8080*1", "server mark sh 0: 10.244.0.2:8080*1",
			}},
		{name: "external Local, none here", config: `{"nodePortAddresses":["192.0.2.0/24"],"healthzBindAddress":""}`, endpoints: []string{"10.244.1.2"},
			change: func(s *proxy.Service) {
				s.ExternalTrafficPolicy, s.HealthCheckNodePort, s.Ports[0].NodePort = "Local", 0, 30080
			}, want: []string{
				"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80", "fronts 192.0.2.10 6 30080",
				"hairpins 10.244.1.2 10.244.1.2 6 8080", "inside 192.0.2.10 6 30080 → mark", "refusals 192.0.2.10 6 30080 → drop",
				"server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1", "server 192.0.2.10:30080/6 rr 0: ", "server mark rr 0: 10.244.1.2:8080*1",
			}},
		{name: "source ranges, with this node in them", endpoints: []string{"10.244.1.2"}, change: func(s *proxy.Service) {
			s.LoadBalancerIps, s.LoadBalancerSourceRanges = []string{"203.0.113.8"}, []string{"192.0.2.0/24"}
		}, want: []string{
			"address 10.96.0.10", "address 203.0.113.8", "bound 10.96.0.10", "bound 203.0.113.8", "cluster-fronts 10.96.0.10 6 80", "everywhere-fronts 203.0.113.8 6 80",
			"fronts 10.96.0.10 6 80", "fronts 203.0.113.8 6 80", "guards 203.0.113.8 6 80 → within 192.0.2.0/24 203.0.113.8/32",
			"server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1", "server 203.0.113.8:80/6 rr 0: 10.244.1.2:8080*1",
		}},
		{name: "an external IP that the machine has stays where it is", endpoints: []string{"10.244.1.2"}, change: func(s *proxy.Service) {
			s.ExternalIps = []string{"192.0.2.10"}
		}, want: []string{
			"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "everywhere-fronts 192.0.2.10 6 80", "fronts 10.96.0.10 6 80", "fronts 192.0.2.10 6 80",
			"server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1", "server 192.0.2.10:80/6 rr 0: 10.244.1.2:8080*1",
		}},
		{name: "addresses that are none are left out", endpoints: []string{"10.244.1.2", "x", "127.0.0.1"}, change: func(s *proxy.Service) {
			s.ExternalIps = []string{"127.0.0.1", "0.0.0.0", "224.0.0.1", "169.254.169.254", "255.255.255.255", "x", "fe80::1%eth0"}
		}, want: []string{
			"address 10.96.0.10", "bound 10.96.0.10", "cluster-fronts 10.96.0.10 6 80", "fronts 10.96.0.10 6 80",
			"server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.config == "" {
				tc.config = quiet
			}
			if tc.protocol == "" {
				tc.protocol = "TCP"
			}
			m := newModel()
			p := started(t, m, tc.config)
			apply(t, p, service(web, "10.96.0.10", tc.protocol, tc.change), endpoints(web, tc.protocol, tc.endpoints...))
			same(t, "the kernel", m.texts(ipv4), tc.want)
			if got := m.texts(ipv6); len(got) > 0 {
				t.Errorf("of IPv6: %v", got)
			}
			m.log = nil
			apply(t, p)
			if len(m.log) > 0 {
				t.Errorf("nothing changed, and the kernel was asked for %v", m.log)
			}
			apply(t, p, serviceRemove(web)...)
			same(t, "without services", m.texts(ipv4), nil)
		})
	}
}

// TestRanks: no user takes a cluster IP or a node port by an external IP; of two equal ones the
// first has the front.
func TestRanks(t *testing.T) {
	m := newModel()
	p := started(t, m, quiet)
	other := proxy.Name{Namespace: "a", Name: "thief"}
	apply(t, p,
		service(other, "10.96.0.11", "TCP", func(s *proxy.Service) {
			s.ExternalIps = []string{"10.96.0.10", "203.0.113.8", "203.0.113.7", "192.0.2.10"}
			s.Ports = append(s.Ports, &proxy.ServicePort{Name: "http", Protocol: "TCP", Port: 30080})
		}), endpoints(other, "TCP", "10.244.66.66"),
		service(web, "10.96.0.10", "TCP", outward), endpoints(web, "TCP", "10.244.1.2"))
	got := m.texts(ipv4)
	for _, want := range []string{
		"server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1", "server 203.0.113.8:80/6 rr 0: 10.244.1.2:8080*1", "server 192.0.2.10:30080/6 rr 0: 10.244.1.2:8080*1",
		"server 203.0.113.7:80/6 rr 0: 10.244.66.66:8080*1", // both are external IPs: it came first
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in\n  %s", want, strings.Join(got, "\n  "))
		}
	}
}

// TestGraceful: a real server with TCP connections gets no new ones and goes when they have ended;
// one that comes back meanwhile keeps them. For UDP and SCTP it goes at once.
func TestGraceful(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel()
		p := started(t, m, quiet)
		to := netip.MustParseAddrPort("10.244.1.2:8080")
		connections := func(n int) {
			for _, list := range m.reals[ipv4] {
				if b, there := list[to]; there {
					list[to] = backend{b.weight, n}
				}
			}
		}
		only := func(when, want string) {
			t.Helper()
			var got []string
			for _, text := range m.texts(ipv4) {
				if strings.HasPrefix(text, "server") {
					got = append(got, text)
				}
			}
			same(t, when, got, []string{want})
		}
		for _, protocol := range []string{"UDP", "SCTP"} {
			apply(t, p, service(web, "10.96.0.10", protocol, nil), endpoints(web, protocol, "10.244.1.2", "10.244.1.3"))
			connections(3)
			apply(t, p, endpoints(web, protocol, "10.244.1.3"))
			only(protocol, map[string]string{"UDP": "server 10.96.0.10:80/17 rr 0: 10.244.1.3:8080*1", "SCTP": "server 10.96.0.10:80/132 rr 0: 10.244.1.3:8080*1"}[protocol])
		}
		apply(t, p, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.1.2", "10.244.1.3"))
		connections(3)
		apply(t, p, endpoints(web, "TCP", "10.244.1.3"))
		only("with connections", "server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*0 10.244.1.3:8080*1")
		m.log = nil
		apply(t, p, endpoints(web, "TCP", "10.244.1.2", "10.244.1.3"))
		only("back", "server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*1 10.244.1.3:8080*1")
		if slices.ContainsFunc(m.log, func(s string) bool { return strings.HasPrefix(s, "remove") }) {
			t.Errorf("its connections were taken from it: %v", m.log)
		}
		apply(t, p, endpoints(web, "TCP", "10.244.1.3"))
		time.Sleep(3 * retirePeriod)
		synctest.Wait()
		only("they last", "server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*0 10.244.1.3:8080*1")
		connections(0)
		time.Sleep(retirePeriod)
		synctest.Wait()
		only("they ended", "server 10.96.0.10:80/6 rr 0: 10.244.1.3:8080*1")
		m.log = nil
		time.Sleep(3 * retirePeriod)
		synctest.Wait()
		if len(m.log) > 0 {
			t.Errorf("nothing is to be done, and the kernel was asked for %v", m.log)
		}
		// A new run finds one that waits, and goes on waiting for it.
		apply(t, p, endpoints(web, "TCP", "10.244.1.2", "10.244.1.3"))
		connections(1)
		apply(t, p, endpoints(web, "TCP", "10.244.1.3"))
		if err := p.Stop(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		next := started(t, m, quiet)
		apply(t, next, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.1.3"))
		only("a new run", "server 10.96.0.10:80/6 rr 0: 10.244.1.2:8080*0 10.244.1.3:8080*1")
		connections(0)
		time.Sleep(retirePeriod)
		synctest.Wait()
		only("its end", "server 10.96.0.10:80/6 rr 0: 10.244.1.3:8080*1")
		start(t, p, quiet, t.TempDir()) // so that its cleanup has something to stop
	})
}

// TestHealing: whatever others do, the next period has it as it should be.
func TestHealing(t *testing.T) {
	at := server{front: front{netip.MustParseAddr("10.96.0.10"), 6, 80}}
	to := netip.MustParseAddrPort("10.244.1.2:8080")
	stranger := server{front: front{netip.MustParseAddr("198.51.100.7"), 6, 80}}
	for name, harm := range map[string]func(m *model){
		"a virtual server goes":     func(m *model) { delete(m.servers[ipv4], at); delete(m.reals[ipv4], at) },
		"it is changed":             func(m *model) { m.servers[ipv4][at] = virtual{scheduler: "wlc"} },
		"one comes":                 func(m *model) { m.servers[ipv4][stranger] = virtual{scheduler: "rr"} },
		"one of a mark of ours":     func(m *model) { m.servers[ipv4][server{mark: markTag | 7}] = virtual{scheduler: "rr"} },
		"a real server goes":        func(m *model) { delete(m.reals[ipv4][at], to) },
		"it gets another weight":    func(m *model) { m.reals[ipv4][at][to] = backend{weight: 0} },
		"one more":                  func(m *model) { m.reals[ipv4][at][netip.MustParseAddrPort("10.244.66.66:8080")] = backend{weight: 1} },
		"an address goes":           func(m *model) { delete(m.on, at.address) },
		"one comes to the device":   func(m *model) { m.on[stranger.address] = true },
		"the device goes":           func(m *model) { m.there = false; clear(m.on) },
		"an element goes":           func(m *model) { clear(m.has[ipv4].elements); m.number++ },
		"rules are changed":         func(m *model) { m.broken[ipv4] = true; m.number++ },
		"a chain's rules":           func(m *model) { m.has[ipv4].chains[guardPrefix+"x"] = changed; m.number++ },
		"the table goes":            func(m *model) { delete(m.has, ipv4); m.number++ },
		"another's table is loaded": func(m *model) { m.number++ },
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel()
			p := started(t, m, quiet)
			apply(t, p, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.1.2", "10.244.1.3"))
			want := m.texts(ipv4)
			harm(m)
			p.check(t.Context())
			same(t, "after a period", m.texts(ipv4), want)
			if len(m.has[ipv4].chains) > 0 {
				t.Errorf("chains are left: %v", m.has[ipv4].chains)
			}
			m.log = nil
			p.check(t.Context())
			if len(m.log) > 0 {
				t.Errorf("the next period asks for %v", m.log)
			}
		})
	}
}

// TestOthersServers: virtual servers in excludeCIDRs stay, and those of marks that are not ours.
func TestOthersServers(t *testing.T) {
	m := newModel()
	kept := []server{{front: front{netip.MustParseAddr("198.51.100.7"), 6, 80}}, {mark: 7}, {mark: 0xffffffff}}
	for _, s := range append(kept, server{front: front{netip.MustParseAddr("192.0.2.1"), 17, 53}}) {
		m.servers[ipv4][s] = virtual{scheduler: "rr"}
	}
	p := started(t, m, `{"healthzBindAddress":"","excludeCIDRs":["198.51.100.0/24"]}`)
	apply(t, p, service(web, "10.96.0.10", "TCP", nil))
	for _, s := range kept {
		if _, there := m.servers[ipv4][s]; !there {
			t.Errorf("the %s is gone", s)
		}
	}
	if len(m.servers[ipv4]) != len(kept)+1 {
		t.Errorf("servers %v", m.servers[ipv4])
	}
	if err := p.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if len(m.servers[ipv4]) != len(kept) {
		t.Errorf("after the cleanup: %v", m.servers[ipv4])
	}
	start(t, p, quiet, t.TempDir())
}

// TestLeftOfOtherFamily: what an earlier process left of a family goes, also where no service has
// that family any more.
func TestLeftOfOtherFamily(t *testing.T) {
	m := newModel()
	p := started(t, m, quiet)
	apply(t, p, service(web, "10.96.0.10 fd00:96::10", "TCP", nil))
	if len(m.servers[ipv6]) == 0 {
		t.Fatal("there is no server of IPv6")
	}
	next := started(t, m, quiet) // the first one was killed
	apply(t, next, service(web, "10.96.0.10", "TCP", nil))
	if left := netip.MustParseAddr("fd00:96::10"); len(m.servers[ipv6]) > 0 || m.on[left] {
		t.Errorf("servers %v, addresses %v", m.servers[ipv6], m.on)
	}
}

// TestFailure: a part that the kernel does not take is said, and brought with the next period.
func TestFailure(t *testing.T) {
	for _, part := range []string{"commit", "set", "real", "bind", "remove", "unbind"} {
		t.Run(part, func(t *testing.T) {
			m := newModel()
			p := started(t, m, quiet)
			old := proxy.Name{Namespace: "default", Name: "old"}
			apply(t, p, service(old, "10.96.0.9", "TCP", nil), endpoints(old, "TCP", "10.244.1.9"))
			m.refuse = func(what string) error {
				if strings.HasPrefix(what, part+" ") {
					return errors.New("busy")
				}
				return nil
			}
			changes := append(serviceRemove(old), service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.1.2"))
			if err := p.Apply(t.Context(), &proxy.Diff{Generation: 2, Changes: changes}); err == nil || !strings.Contains(err.Error(), "busy") {
				t.Errorf("got %v", err)
			}
			if s := p.Status(); s.Ready || !strings.Contains(s.Message, "busy") {
				t.Errorf("status %+v", s)
			}
			m.refuse = nil
			p.check(t.Context())
			fresh := newModel()
			q := started(t, fresh, quiet)
			apply(t, q, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.1.2"))
			same(t, "after a period", m.texts(ipv4), fresh.texts(ipv4))
			if s := p.Status(); !s.Ready || s.Services != 1 || s.Endpoints != 1 {
				t.Errorf("status %+v", s)
			}
		})
	}
}

// TestStop: a cleanup leaves nothing and puts switches and timeouts back, also after a run that
// was killed; without it everything stays.
func TestStop(t *testing.T) {
	m := newModel()
	state := t.TempDir()
	p := over(t, m)
	file := filepath.Join(p.proc, "net/ipv4/vs/conntrack")
	arp := filepath.Join(p.proc, "net/ipv4/conf/all/arp_ignore")
	for _, f := range []string{file, arp} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(f), 0o755), os.WriteFile(f, []byte("0"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	const config = `{"healthzBindAddress":"","strictARP":true,"tcpTimeout":"1h","udpTimeout":"10s"}`
	start(t, p, config, state)
	local := service(web, "10.96.0.10 fd00:96::10", "TCP", func(s *proxy.Service) { s.ExternalTrafficPolicy, s.Ports[0].NodePort = "Local", 30080 })
	apply(t, p, local, endpoints(web, "TCP", "10.244.1.2*", "fd00:244::2*"))
	if m.times != (timeouts{time.Hour, 120 * time.Second, 10 * time.Second}) {
		t.Errorf("timeouts %v", m.times)
	}
	before := slices.Concat(m.texts(ipv4), m.texts(ipv6))
	if len(before) < 20 {
		t.Errorf("only %v", before)
	}
	if err := p.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	same(t, "after a stop", slices.Concat(m.texts(ipv4), m.texts(ipv6)), before)
	next := over(t, m)
	next.proc = p.proc
	start(t, next, config, state)
	if err := next.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if left := slices.Concat(m.texts(ipv4), m.texts(ipv6)); len(left) > 0 || m.there || len(m.has) > 0 {
		t.Errorf("left: %v, the device %t, tables %v", left, m.there, slices.Collect(maps.Keys(m.has)))
	}
	if m.times != (timeouts{900 * time.Second, 120 * time.Second, 300 * time.Second}) {
		t.Errorf("timeouts %v", m.times)
	}
	for _, f := range []string{file, arp} {
		if data, err := os.ReadFile(f); err != nil || string(data) != "0" {
			t.Errorf("%s is %q (%v)", f, data, err)
		}
	}
	if list, err := os.ReadDir(state); err != nil || len(list) > 0 {
		t.Errorf("the state directory has %v (%v)", list, err)
	}
}

// TestWithoutTables: where the tables are gone, a cleanup knows its virtual servers by the
// addresses of the device.
func TestWithoutTables(t *testing.T) {
	m := newModel()
	p := started(t, m, quiet)
	apply(t, p, service(web, "10.96.0.10", "TCP", nil), endpoints(web, "TCP", "10.244.1.2"))
	m.servers[ipv4][server{mark: 7}] = virtual{scheduler: "rr"}
	delete(m.has, ipv4)
	h := m.host()
	h.balancer = modelBalancer{m}
	if left, err := h.left(); !left || err != nil {
		t.Errorf("left %t, %v", left, err)
	}
	if err := h.removeAll(); err != nil {
		t.Fatal(err)
	}
	same(t, "after it", m.texts(ipv4), []string{"server mark rr 0: "})
	if left, err := h.left(); left || err != nil {
		t.Errorf("left %t, %v", left, err)
	}
}

// TestNoIPVS: on a kernel without it the proxy says at once what is missing, and does nothing.
func TestNoIPVS(t *testing.T) {
	m := newModel()
	p := over(t, m)
	p.open = func() (balancer, error) { return nil, errNoIPVS }
	err := p.Start(t.Context(), proxy.Options{StateDirectory: t.TempDir(), Config: []byte(quiet)})
	if !errors.Is(err, errNoIPVS) || !strings.Contains(err.Error(), "ip_vs") {
		t.Errorf("start: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := p.Probe(t.Context(), nil); !errors.Is(err, errNoIPVS) {
			t.Errorf("probe: %v", err)
		}
	}
	if m.there || len(m.log) > 0 {
		t.Errorf("something was made: %v", m.log)
	}
	if err := p.Stop(context.WithoutCancel(t.Context()), true); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// TestProbe: a scheduler that is missing is found, and nothing is left.
func TestProbe(t *testing.T) {
	m := newModel()
	if err := probe(modelBalancer{m}, "rr"); err != nil || len(m.servers[ipv4]) > 0 {
		t.Errorf("%v, left %v", err, m.servers[ipv4])
	}
	m.refuse = func(string) error { return errors.New("no scheduler") }
	if err := probe(modelBalancer{m}, "wlc"); err == nil {
		t.Error("no error")
	}
}

// TestStaleFlows: those of UDP services whose endpoints changed are forgotten, and tried again
// where that fails.
func TestStaleFlows(t *testing.T) {
	synctest.Test(t, staleFlows) // a deletion takes no time, so that none waits for another
}

func staleFlows(t *testing.T) {
	m := newModel()
	p := started(t, m, quiet)
	var asked []string
	fail := true
	p.flows = conntrack.ForgetterBy(func(f conntrack.Family, gone *conntrack.Stale) error {
		for at, serving := range gone.Fronts() {
			asked = append(asked, f.String()+" "+at.String()+" "+strings.Join(func() (out []string) {
				for to := range serving {
					out = append(out, to.String())
				}
				slices.Sort(out)
				return out
			}(), ","))
		}
		if fail {
			fail = false
			return conntrack.ErrMore
		}
		return nil
	})
	apply(t, p, service(web, "10.96.0.10", "UDP", nil), endpoints(web, "UDP", "10.244.1.2"))
	same(t, "at first", asked, []string{"IPv4 10.96.0.10:80 10.244.1.2:8080"})
	asked = nil
	p.check(t.Context())
	same(t, "again", asked, []string{"IPv4 10.96.0.10:80 10.244.1.2:8080"})
	asked = nil
	apply(t, p, service(web, "10.96.0.10", "UDP", nil))
	same(t, "the same endpoints", asked, nil)
	apply(t, p, endpoints(web, "UDP", "10.244.1.3"))
	same(t, "another endpoint", asked, []string{"IPv4 10.96.0.10:80 10.244.1.3:8080"})
}

// TestAddressesOfTheMachine: one that comes gets the node ports, and one that goes loses them.
func TestAddressesOfTheMachine(t *testing.T) {
	m := newModel()
	p := started(t, m, quiet)
	apply(t, p, service(web, "10.96.0.10", "TCP", func(s *proxy.Service) { s.Ports[0].NodePort = 30080 }), endpoints(web, "TCP", "10.244.1.2"))
	serves := func(when, address string, want bool) {
		t.Helper()
		if _, there := m.servers[ipv4][server{front: front{netip.MustParseAddr(address), 6, 30080}}]; there != want {
			t.Errorf("%s: %s serves node ports %t", when, address, there)
		}
	}
	m.others[netip.MustParseAddr("192.0.2.99")] = true
	delete(m.others, netip.MustParseAddr("192.0.2.10"))
	p.check(t.Context())
	serves("after a period", "192.0.2.99", true)
	serves("after a period", "192.0.2.10", false)
	serves("after a period", "10.244.0.1", true)
	serves("an address of a service", "10.96.0.10", false)
}

// TestOrderOfWrites: between any two writes, whoever has a virtual server has its source ranges, and
// an address on the device reaches nothing else of the node. A service that comes or goes passes
// through no state in which it is more open than it is wanted.
func TestOrderOfWrites(t *testing.T) {
	m := newModel()
	p := started(t, m, quiet)
	const outside = "203.0.113.8"
	front := netip.MustParseAddrPort(outside + ":80")
	guarded := service(web, "10.96.0.10", "TCP", func(s *proxy.Service) {
		s.Type, s.LoadBalancerIps, s.LoadBalancerSourceRanges = "LoadBalancer", []string{outside}, []string{"192.0.2.0/24"}
	})
	looked, ranges := 0, true
	m.after = func(what string) {
		looked++
		has := m.has[ipv4].elements
		for s := range m.servers[ipv4] {
			if netip.AddrPortFrom(s.address, s.port) != front {
				continue
			}
			if _, guard := has[newItem(guards, s.front.key())]; !guard && ranges {
				t.Errorf("after %q %s has a server and no source ranges:\n%s", what, front, strings.Join(m.log, "\n"))
			}
		}
		for a := range m.on {
			if _, closed := has[newItem(bound, a.AsSlice())]; a.Is4() && !closed {
				t.Errorf("after %q all ports of the node are reached by %s:\n%s", what, a, strings.Join(m.log, "\n"))
			}
		}
	}
	apply(t, p, guarded, endpoints(web, "TCP", "10.244.0.5"))
	apply(t, p, serviceRemove(web)...)
	if looked < 6 || len(m.servers[ipv4]) > 0 || len(m.on) > 0 || len(m.has[ipv4].elements) > 0 {
		t.Errorf("%d writes, and left is:\n%s", looked, strings.Join(m.texts(ipv4), "\n"))
	}
	// One whose ranges go stays, and is open.
	apply(t, p, guarded, endpoints(web, "TCP", "10.244.0.5"))
	ranges = false
	apply(t, p, service(web, "10.96.0.10", "TCP", func(s *proxy.Service) { s.Type, s.LoadBalancerIps = "LoadBalancer", []string{outside} }))
	for i := range m.has[ipv4].elements {
		if i.set() == guards {
			t.Errorf("a guard is left: %s", ipv4.keyText(i))
		}
	}
	// What could not be deleted keeps its ranges until it is.
	apply(t, p, guarded)
	ranges = true
	m.refuse = func(what string) error {
		if strings.HasPrefix(what, "remove ") {
			return errors.New("busy")
		}
		return nil
	}
	if err := p.Apply(t.Context(), &proxy.Diff{Generation: p.state.Generation + 1, Changes: serviceRemove(web)}); err == nil {
		t.Error("a server that stays is no error")
	}
	m.refuse = nil
	p.check(t.Context())
	if len(m.servers[ipv4])+len(m.has[ipv4].elements) > 0 {
		t.Errorf("left is:\n%s", strings.Join(m.texts(ipv4), "\n"))
	}
}
