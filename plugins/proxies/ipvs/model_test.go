package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	nft "github.com/google/nftables"

	"pintle.dev/pintle/plugins/proxies/conntrack"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// model is a kernel in memory that takes what the real one takes: what is made is not there yet,
// and what is changed is.
type model struct {
	number  uint32 // the generation of nftables
	has     map[*family]contents
	broken  map[*family]bool // rules are not as they were committed
	writes  int
	servers map[*family]map[server]virtual
	reals   map[*family]map[server]map[netip.AddrPort]backend
	times   timeouts
	there   bool // the device
	on      map[netip.Addr]bool
	others  map[netip.Addr]bool
	refuse  func(what string) error // nil: takes everything
	after   func(what string)       // nil: nobody looks between two writes
	log     []string
}

func newModel() *model {
	m := &model{
		number: 1, has: map[*family]contents{}, broken: map[*family]bool{}, servers: map[*family]map[server]virtual{}, reals: map[*family]map[server]map[netip.AddrPort]backend{},
		on: map[netip.Addr]bool{}, others: map[netip.Addr]bool{}, times: timeouts{900e9, 120e9, 300e9},
	}
	for _, f := range []*family{ipv4, ipv6} {
		m.servers[f], m.reals[f] = map[server]virtual{}, map[server]map[netip.AddrPort]backend{}
	}
	for _, a := range []string{"192.0.2.10", "10.244.0.1", "fd00::1"} {
		m.others[netip.MustParseAddr(a)] = true
	}
	return m
}

func (m *model) note(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if m.refuse != nil {
		if err := m.refuse(text); err != nil {
			return err
		}
	}
	m.log = append(m.log, text)
	if m.after != nil {
		m.after(text)
	}
	return nil
}

type (
	modelTables   struct{ *model }
	modelBalancer struct{ *model }
	modelDevice   struct{ *model }
)

func (m modelTables) generation() (uint32, error) { return m.number, nil }
func (m modelTables) close() error                { return nil }

func (m modelTables) read(f *family) (contents, bool, error) {
	has, there := m.has[f]
	if !there {
		return newContents(), false, nil
	}
	return contents{maps.Clone(has.elements), maps.Clone(has.chains)}, !m.broken[f], nil
}

func (m modelTables) commit(f *family, _ settings, t transaction) error {
	if err := m.note("commit %s", f.name); err != nil {
		return err
	}
	has, there := m.has[f]
	if t.rebuild {
		has, there = newContents(), true
		m.broken[f] = false
	}
	if !there {
		return errors.New("no such table")
	}
	next := contents{maps.Clone(has.elements), maps.Clone(has.chains)}
	maps.Copy(next.chains, t.chains)
	for _, c := range t.changes {
		_, exists := next.elements[c.item]
		if c.del != exists && (c.del || c.add) {
			return fmt.Errorf("element %q of %s: there %t", c.key(), c.set(), exists)
		}
		delete(next.elements, c.item)
		if c.add {
			if c.set() == guards && next.chains[c.value] == "" && !strings.HasPrefix(c.value, guardPrefix) {
				return fmt.Errorf("no chain %s", c.value)
			}
			next.elements[c.item] = c.value
		}
	}
	m.has[f] = next
	m.number++
	m.writes++
	return nil
}

func (m modelTables) prune(f *family, chains []string) error {
	for _, name := range chains {
		for _, value := range m.has[f].elements {
			if value == name {
				return fmt.Errorf("the chain %s is in use", name)
			}
		}
		delete(m.has[f].chains, name)
	}
	m.number++
	return nil
}

func (m modelTables) remove(f *family) (bool, error) {
	_, there := m.has[f]
	delete(m.has, f)
	return there, nil
}

func (m modelBalancer) close()                      {}
func (m modelBalancer) timeouts() (timeouts, error) { return m.times, nil }
func (m modelBalancer) list(f *family) (map[server]virtual, error) {
	return maps.Clone(m.servers[f]), nil
}

func (m modelBalancer) setTimeouts(t timeouts) error {
	for _, pair := range []struct{ to, from *int64 }{
		{(*int64)(&m.times.tcp), (*int64)(&t.tcp)}, {(*int64)(&m.times.tcpFin), (*int64)(&t.tcpFin)}, {(*int64)(&m.times.udp), (*int64)(&t.udp)},
	} {
		if *pair.from > 0 {
			*pair.to = *pair.from
		}
	}
	return nil
}

func (m modelBalancer) real(f *family, s server) (map[netip.AddrPort]backend, error) {
	return maps.Clone(m.reals[f][s]), nil
}

func (m modelBalancer) set(f *family, s server, v virtual, anew bool) error {
	if err := m.note("set %s %s %d new %t", s, v.scheduler, v.sticky, anew); err != nil {
		return err
	}
	if _, there := m.servers[f][s]; there == anew {
		return fmt.Errorf("%s: there %t", s, there)
	}
	v.graceful = false // the kernel knows nothing of it
	m.servers[f][s] = v
	if anew {
		m.reals[f][s] = map[netip.AddrPort]backend{}
	}
	return nil
}

func (m modelBalancer) remove(f *family, s server) error {
	if err := m.note("remove %s", s); err != nil {
		return err
	}
	delete(m.servers[f], s)
	delete(m.reals[f], s)
	return nil
}

func (m modelBalancer) setReal(f *family, s server, to netip.AddrPort, weight int, anew bool) error {
	if err := m.note("real %s %s weight %d new %t", s, to, weight, anew); err != nil {
		return err
	}
	has, there := m.reals[f][s][to]
	if there == anew {
		return fmt.Errorf("%s %s: there %t", s, to, there)
	}
	m.reals[f][s][to] = backend{weight, has.connections}
	return nil
}

func (m modelBalancer) removeReal(f *family, s server, to netip.AddrPort) error {
	if err := m.note("remove real %s %s", s, to); err != nil {
		return err
	}
	delete(m.reals[f][s], to)
	return nil
}

func (m modelDevice) ensure() error { m.there = true; return nil }
func (m modelDevice) addresses() (map[netip.Addr]bool, map[netip.Addr]bool, error) {
	return maps.Clone(m.on), maps.Clone(m.others), nil
}
func (m modelDevice) bind(a netip.Addr) error {
	if !m.there {
		return errors.New("no device")
	}
	m.on[a] = true
	return m.note("bind %s", a)
}
func (m modelDevice) unbind(a netip.Addr) error { delete(m.on, a); return m.note("unbind %s", a) }
func (m modelDevice) remove() (bool, error) {
	there := m.there
	m.there = false
	clear(m.on)
	return there, nil
}

func (m *model) host() host { return host{modelTables{m}, nil, modelDevice{m}} }

const quiet = `{"healthzBindAddress":"","syncPeriod":"24h"}`

// over is a proxy over a model, which is not started.
func over(t *testing.T, m *model) *Proxy {
	t.Helper()
	return &Proxy{
		host: m.host(), open: func() (balancer, error) { return modelBalancer{m}, nil }, proc: t.TempDir(),
		flows: conntrack.ForgetterBy(func(conntrack.Family, *conntrack.Stale) error { return nil }),
	}
}

// started is one that is.
func started(t *testing.T, m *model, config string) *Proxy {
	t.Helper()
	p := over(t, m)
	start(t, p, config, t.TempDir())
	t.Cleanup(func() {
		if err := p.Stop(context.WithoutCancel(t.Context()), false); err != nil {
			t.Error(err)
		}
	})
	return p
}

func start(t *testing.T, p *Proxy, config, state string) {
	t.Helper()
	if err := p.Start(t.Context(), proxy.Options{
		NodeName: "n", NodeIPs: []string{"192.0.2.10", "fd00::1"}, ClusterCIDRs: []string{"10.244.0.0/16", "fd00:244::/64"}, ServiceCIDRs: []string{"10.96.0.0/16", "fd00:96::/112"},
		StateDirectory: state, Config: []byte(config), Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
}

func apply(t *testing.T, p *Proxy, changes ...*proxy.Change) {
	t.Helper()
	if err := p.Apply(t.Context(), &proxy.Diff{Generation: p.state.Generation + 1, Reset_: p.state.Generation == 0, Changes: changes}); err != nil {
		t.Fatal(err)
	}
}

var web = proxy.Name{Namespace: "default", Name: "web"}

// service is one, with one port that is named http.
func service(name proxy.Name, ip, protocol string, change func(*proxy.Service)) *proxy.Change {
	s := &proxy.Service{
		Name: &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}, ClusterIps: strings.Fields(ip), SessionAffinity: "None",
		Ports: []*proxy.ServicePort{{Name: "http", Protocol: protocol, Port: 80}},
	}
	if change != nil {
		change(s)
	}
	return &proxy.Change{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: s}}
}

func serviceRemove(name proxy.Name) []*proxy.Change {
	id := &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}
	return []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceRemove{ServiceRemove: id}},
		{Change: &contractv1.ProxyChange_EndpointsRemove{EndpointsRemove: id}},
	}
}

// endpoints sets those of a service; an address with a star is on this node, and one with a sign
// is ending.
func endpoints(name proxy.Name, protocol string, addresses ...string) *proxy.Change {
	var list []*proxy.Endpoint
	for _, text := range addresses {
		ip, ending := strings.CutSuffix(text, "!")
		ip, local := strings.CutSuffix(ip, "*")
		list = append(list, &proxy.Endpoint{Ip: ip, Port: 8080, Ready: !ending, Serving: true, Terminating: ending, Local: local})
	}
	return &proxy.Change{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
		Name:  &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name},
		Ports: []*proxy.PortEndpoints{{PortName: "http", Protocol: protocol, Endpoints: list}},
	}}}
}

// texts writes what a model has of a family as people read it, sorted.
func (m *model) texts(f *family) []string {
	var out []string
	for s, v := range m.servers[f] {
		var real []string
		for to, b := range m.reals[f][s] {
			real = append(real, fmt.Sprintf("%s*%d", to, b.weight))
		}
		slices.Sort(real)
		at := "mark"
		if s.mark == 0 {
			at = fmt.Sprintf("%s/%d", netip.AddrPortFrom(s.address, s.port), s.protocol)
		}
		out = append(out, fmt.Sprintf("server %s %s %d: %s", at, v.scheduler, v.sticky, strings.Join(real, " ")))
	}
	for i, value := range m.has[f].elements {
		if allowed, guard := m.has[f].chains[value]; guard {
			value = "within " + allowed
		}
		text := i.set().String() + " " + f.keyText(i)
		if i.set() == inside {
			value = "mark"
		}
		if value != "" {
			text += " → " + value
		}
		out = append(out, text)
	}
	for a := range m.on {
		if a.BitLen() == f.bits {
			out = append(out, "address "+a.String())
		}
	}
	slices.Sort(out)
	return out
}

func (f *family) keyText(i item) string {
	key, words := i.key(), []string{}
	for _, t := range definitions[i.set()].key(f.address) {
		switch t {
		case nft.TypeInetProto:
			words = append(words, fmt.Sprint(key[0]))
			key = key[4:]
		case nft.TypeInetService:
			words = append(words, fmt.Sprint(int(key[0])<<8|int(key[1])))
			key = key[min(4, len(key)):]
		default:
			a, _ := netip.AddrFromSlice(key[:f.bits/8])
			words = append(words, a.String())
			key = key[f.bits/8:]
		}
	}
	return strings.Join(words, " ")
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
