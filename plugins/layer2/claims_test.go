package layer2

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// recorded is a link, and what is told, written down: what goes on once.
type recorded struct {
	did    []string
	said   map[netip.Addr]string
	joined map[netip.Addr]bool
}

func (r *recorded) add(format string, args ...any) error {
	r.did = append(r.did, fmt.Sprintf(format, args...))
	return nil
}
func (r *recorded) Join(ip netip.Addr) error {
	if r.joined[ip] {
		return r.add("join %s again", ip)
	}
	r.joined[ip] = true
	return nil
}
func (r *recorded) Leave(ip netip.Addr)                 { delete(r.joined, ip) }
func (r *recorded) Probe(ip netip.Addr) error           { return r.add("probe %s", ip) }
func (r *recorded) Ask(ip netip.Addr) error             { return r.add("ask %s", ip) }
func (r *recorded) Announce(ip netip.Addr) error        { return r.add("announce %s", ip) }
func (r *recorded) Answer(ip netip.Addr, q heard) error { return r.add("answer %s to %s", ip, q.from) }
func (r *recorded) announced(ip netip.Addr, s *corev1.Service) {
	r.once(ip, "announced", "event %s announced", s.Name)
}
func (r *recorded) taken(ip netip.Addr, s *corev1.Service, node string) {
	r.once(ip, node, "event %s taken by %s", s.Name, node)
}
func (r *recorded) forget(ip netip.Addr) { delete(r.said, ip) }
func (r *recorded) once(ip netip.Addr, what, format string, args ...any) {
	if r.said[ip] != what {
		r.said[ip] = what
		_ = r.add(format, args...)
	}
}
func (r *recorded) inUse(ip netip.Addr, s *corev1.Service, by net.HardwareAddr) {
	_ = r.add("event %s used by %s", s.Name, by)
}

// took returns what was done since, and forgets it.
func (r *recorded) took() string {
	did := strings.Join(r.did, ", ")
	r.did = nil
	return did
}

var (
	mine    = net.HardwareAddr{2, 0, 0, 0, 0, 5}
	fellow  = net.HardwareAddr{2, 0, 0, 0, 0, 6}
	other   = net.HardwareAddr{2, 0, 0, 0, 0, 9}
	lower   = net.HardwareAddr{2, 0, 0, 0, 0, 1}
	ip1     = netip.MustParseAddr("192.0.2.200")
	fellow1 = netip.MustParseAddr("192.0.2.2")
	nobody  = netip.IPv4Unspecified()
)

// game is claims on a recorded link, with a clock of its own.
type game struct {
	*claims
	*recorded
	t   *testing.T
	now time.Time
}

func newGame(t *testing.T) *game {
	r := &recorded{said: map[netip.Addr]string{}, joined: map[netip.Addr]bool{}}
	return &game{claims: newClaims(r, mine, r, slog.New(slog.DiscardHandler)), recorded: r, t: t, now: time.Unix(1000, 0)}
}

// pass lets time pass, and does what becomes due.
func (g *game) pass(d time.Duration) {
	for end := g.now.Add(d); ; {
		next := g.due(g.now)
		if next.IsZero() || next.After(end) {
			g.now = end
			g.due(g.now)
			return
		}
		g.now = next
	}
}

func (g *game) want(when, did string) {
	g.t.Helper()
	if got := g.took(); got != did {
		g.t.Errorf("%s: did %q, want %q", when, got, did)
	}
}

func holds(ips ...netip.Addr) plan {
	p := plan{hold: map[netip.Addr]*corev1.Service{}, fellows: map[netip.Addr]bool{fellow1: true}}
	for _, ip := range ips {
		p.hold[ip] = serviceOf("web", ip.String())
	}
	return p
}

// TestTake: an address is probed, announced, answered for, and given up, as RFC 5227 says.
func TestTake(t *testing.T) {
	g := newGame(t)
	g.follow(holds(ip1), g.now)
	question := heard{question: true, from: other, sender: netip.MustParseAddr("192.0.2.9"), target: ip1}
	g.pass(0)
	g.hear(question, g.now)
	g.want("at first, when it answers nobody", "ask 192.0.2.2, probe 192.0.2.200")
	g.pass(2 * time.Second)
	g.hear(question, g.now)
	g.want("while it probes", "probe 192.0.2.200, probe 192.0.2.200")
	g.pass(2 * time.Second)
	g.want("when none answered", "event web announced, announce 192.0.2.200")
	g.hear(question, g.now)
	g.hear(heard{question: true, from: other, sender: nobody, target: ip1}, g.now)
	g.want("asked, also by a probe", "answer 192.0.2.200 to "+other.String()+", answer 192.0.2.200 to "+other.String())
	g.hear(heard{question: true, from: mine, sender: ip1, target: ip1}, g.now)
	g.hear(heard{from: other, sender: netip.MustParseAddr("192.0.2.9"), target: ip1}, g.now)
	g.hear(heard{question: true, from: other, sender: nobody, target: netip.MustParseAddr("192.0.2.201")}, g.now)
	g.want("by its own packets, answers, and questions about other addresses", "")
	g.pass(announceAgain / 2)
	g.want("later", "announce 192.0.2.200")
	g.follow(holds(ip1), g.now)
	g.pass(2 * announceAgain)
	g.want("with the same plan", "announce 192.0.2.200, announce 192.0.2.200")
	back := holds(ip1)
	back.view = "another node is Ready again"
	g.follow(back, g.now)
	g.pass(announceAgain / 2)
	g.want("when nodes came or went", "announce 192.0.2.200, announce 192.0.2.200")
	g.follow(holds(), g.now)
	g.hear(question, g.now)
	g.pass(time.Hour)
	g.want("without the address", "")
}

// TestInUse: an address that a machine has is not taken; an event says so, and it is taken
// when that machine is gone.
func TestInUse(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 3 * time.Second} {
		g := newGame(t)
		g.follow(holds(ip1), g.now)
		g.pass(after)
		g.took()
		g.hear(heard{from: other, sender: ip1, target: nobody}, g.now)
		g.hear(heard{question: true, from: lower, sender: netip.MustParseAddr("192.0.2.9"), target: ip1}, g.now)
		g.pass(lookAgain - time.Second)
		g.want("in use", "event web used by "+other.String())
		g.pass(5 * time.Second)
		if got := g.took(); !strings.HasSuffix(got, "probe 192.0.2.200, probe 192.0.2.200, probe 192.0.2.200") && !strings.HasSuffix(got, "event web announced, announce 192.0.2.200") {
			t.Errorf("afterwards: %s", got)
		}
		g.pass(5 * time.Second)
		if got := g.claims.held[ip1].stage; got != holding {
			t.Errorf("it is in stage %d", got)
		}
	}
}

// TestFellow: an address that another node of the cluster still answers for is taken soon
// after it stops, and no event says that another machine has it.
func TestFellow(t *testing.T) {
	g := newGame(t)
	g.follow(holds(ip1), g.now)
	g.pass(0)
	g.hear(heard{from: fellow, sender: fellow1, target: nobody}, g.now)
	for range 20 {
		g.hear(heard{from: fellow, sender: ip1, target: nobody}, g.now)
		g.pass(fellowAgain)
	}
	if did := g.took(); strings.Contains(did, "event") || strings.Contains(did, "announce") || strings.Count(did, "ask") > 6 {
		t.Errorf("while the other node answers: %s", did)
	}
	g.pass(6 * time.Second)
	if did := g.took(); !strings.Contains(did, "event web announced, announce 192.0.2.200") {
		t.Errorf("afterwards: %s", did)
	}
	// One that says it is a fellow without being asked for a fellow's address is none.
	g.hear(heard{from: other, sender: netip.MustParseAddr("192.0.2.3"), target: nobody}, g.now)
	g.hear(heard{question: true, from: other, sender: ip1, target: ip1}, g.now)
	g.want("contested by a machine that may be a fellow", "ask 192.0.2.2, announce 192.0.2.200")
	g.pass(defendEach)
	g.took()
	g.hear(heard{question: true, from: other, sender: ip1, target: ip1}, g.now)
	g.want("contested by another machine", "ask 192.0.2.2, event web used by "+other.String()+", announce 192.0.2.200")
}

// TestDefend: a machine that says it has an address that is held is answered every ten
// seconds at most, however often it says so.
func TestDefend(t *testing.T) {
	g := newGame(t)
	g.follow(holds(ip1), g.now)
	g.pass(announceAgain / 2)
	g.took()
	for range 1000 {
		g.hear(heard{question: true, from: other, sender: ip1, target: ip1}, g.now)
		g.pass(25 * time.Millisecond)
	}
	if n := strings.Count(g.took(), "announce"); n != 3 {
		t.Errorf("announced %d times in 25 s", n)
	}
	if g.claims.held[ip1].stage != holding {
		t.Error("it was given up")
	}
}

// TestTwoProbe: of two machines that probe one address at once, one passes.
func TestTwoProbe(t *testing.T) {
	for _, c := range []struct {
		by     net.HardwareAddr
		passes bool
	}{{lower, false}, {other, true}} {
		g := newGame(t)
		g.follow(holds(ip1), g.now)
		g.pass(time.Second)
		g.hear(heard{question: true, from: c.by, sender: nobody, target: ip1}, g.now)
		g.pass(4 * time.Second)
		if got := g.claims.held[ip1].stage == holding; got != c.passes {
			t.Errorf("beside %s it holds the address: %t", c.by, got)
		}
	}
}

// TestFlood: packets of the link make nothing grow.
func TestFlood(t *testing.T) {
	g := newGame(t)
	g.follow(holds(ip1), g.now)
	g.pass(time.Minute)
	for i := range 100000 {
		from := net.HardwareAddr{6, 0, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
		sender := netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})
		g.hear(heard{question: i%2 == 0, from: from, sender: sender, target: nobody}, g.now)
	}
	if len(g.claims.fellows) != 1 || len(g.claims.held) != 1 {
		t.Errorf("%d other nodes, %d addresses are kept", len(g.claims.fellows), len(g.claims.held))
	}
}

// TestManyAtOnce: addresses that come at once are probed one after the other.
func TestManyAtOnce(t *testing.T) {
	g := newGame(t)
	var ips []netip.Addr
	for i := range 100 {
		ips = append(ips, netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}))
	}
	g.follow(holds(ips...), g.now)
	g.pass(9 * spread)
	if n := strings.Count(g.took(), "probe"); n != 10 {
		t.Errorf("%d probes in %s", n, 9*spread)
	}
	g.pass(time.Minute)
	var missing []string
	for _, ip := range ips {
		if g.claims.held[ip].stage != holding {
			missing = append(missing, ip.String())
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("not held: %v", missing)
	}
}

// TestForeign: a packet that another hardware address sent is heard where it says that an
// address is in use, and gets no answer. No fellow is learned from it.
func TestForeign(t *testing.T) {
	g := newGame(t)
	g.follow(holds(ip1), g.now)
	g.pass(0)
	g.took()
	g.hear(heard{foreign: true, from: fellow, sender: fellow1, target: nobody}, g.now)
	g.hear(heard{foreign: true, from: other, sender: ip1, target: nobody}, g.now)
	g.want("while it is probed", "event web used by "+other.String())
	if c := g.claims; c.held[ip1].stage != waiting || c.isFellow(string(fellow)) {
		t.Errorf("in stage %d, fellows %q", c.held[ip1].stage, c.fellows)
	}
	g.pass(lookAgain + announceAgain/2)
	g.took()
	g.hear(heard{foreign: true, question: true, from: other, sender: fellow1, target: ip1}, g.now)
	g.want("asked", "")
	g.hear(heard{foreign: true, from: other, sender: ip1, target: nobody}, g.now)
	g.want("when it is held", "ask 192.0.2.2, announce 192.0.2.200")
}

// TestToldAgain: a node that gets an address back says so, and so it does for another service.
func TestToldAgain(t *testing.T) {
	g := newGame(t)
	for _, when := range []string{"at first", "when it is back"} {
		g.follow(holds(ip1), g.now)
		g.pass(announceAgain / 2)
		if did := g.took(); strings.Count(did, "event web announced") != 1 {
			t.Errorf("%s: %s", when, did)
		}
		g.follow(holds(), g.now)
	}
	g.follow(holds(ip1), g.now)
	g.pass(announceAgain)
	g.took()
	p := holds()
	p.hold[ip1] = serviceOf("new", ip1.String())
	g.follow(p, g.now)
	g.pass(announceAgain)
	g.want("for another service", "event new announced, announce 192.0.2.200")
	p = holds()
	p.left = map[netip.Addr]leftOut{ip1: {serviceOf("new", ip1.String()), "b"}}
	for range 3 {
		g.follow(p, g.now)
		g.pass(announceAgain)
	}
	g.want("when a node has it", "event new taken by b")
	g.follow(holds(), g.now)
	g.follow(p, g.now)
	g.want("when a node has it again", "event new taken by b")
}

// TestNotSent: the log has the first packet that is not sent, and the end of that.
func TestNotSent(t *testing.T) {
	var log bytes.Buffer
	g := newGame(t)
	g.claims.log = slog.New(slog.NewTextHandler(&log, nil))
	down := errors.New("network is down")
	for i := range 1000 { // some are sent between
		err := down
		if i%3 == 2 {
			err = nil
		}
		g.claims.did(g.now.Add(time.Duration(i)*time.Second), "answer for", ip1, err)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "network is down") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
	for i := range 1000 {
		g.claims.did(g.now.Add(time.Duration(1000+i)*time.Second), "answer for", ip1, nil)
	}
	if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "sent again") {
		t.Errorf("%d lines:\n%s", n, log.String())
	}
}

// pair are two nodes whose plans both want one address, on a network that can be cut.
type pair struct {
	nodes      [2]*claims
	macs       [2]net.HardwareAddr
	ips        [2]netip.Addr
	cut        bool
	advertises bool // an address is announced as NDP does, by an answer that nobody asked for
	queue      []func()
	now        time.Time
	gaps       int // looks at which the second did not hold the address
}

// end is the link of one of a pair.
type end struct {
	*pair
	i int
}

func (e end) say(p heard) error {
	p.from = e.macs[e.i]
	e.deliver(1-e.i, p)
	return nil
}
func (p *pair) deliver(to int, what heard) {
	if !p.cut {
		p.queue = append(p.queue, func() { p.nodes[to].hear(what, p.now) })
	}
}
func (e end) Join(netip.Addr) error { return nil }
func (e end) Leave(netip.Addr)      {}
func (e end) Probe(ip netip.Addr) error {
	return e.say(heard{question: true, sender: nobody, target: ip})
}
func (e end) Announce(ip netip.Addr) error {
	if e.advertises {
		return e.say(heard{sender: ip, target: nobody})
	}
	return e.say(heard{question: true, sender: ip, target: ip})
}
func (e end) Answer(ip netip.Addr, q heard) error { return e.say(heard{sender: ip, target: q.sender}) }
func (e end) Ask(ip netip.Addr) error { // the other machine's kernel answers
	if ip == e.ips[1-e.i] {
		e.deliver(e.i, heard{from: e.macs[1-e.i], sender: ip, target: e.ips[e.i]})
	}
	return e.say(heard{question: true, sender: e.ips[e.i], target: ip})
}

// pass lets time pass, and returns which nodes hold the address then.
func (p *pair) pass(d time.Duration) (holds [2]bool) {
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(50 * time.Millisecond) {
		for _, c := range p.nodes {
			c.due(p.now)
		}
		for len(p.queue) > 0 {
			next := p.queue[0]
			p.queue = p.queue[1:]
			next()
		}
		if p.nodes[1].held[ip1].stage != holding {
			p.gaps++
		}
	}
	for i, c := range p.nodes {
		holds[i] = c.held[ip1].stage == holding
	}
	return holds
}

// TestCut: two nodes that both hold an address, since the network was cut, become one when they
// hear each other again, whether they knew each other before or not. The one with the lower
// hardware address stays, without a gap. No event says that another machine has it.
func TestCut(t *testing.T) {
	for _, known := range []bool{false, true} {
		for _, after := range []time.Duration{time.Second, 17 * time.Second, 59 * time.Second} {
			// The first node starts earlier or later, so that one or the other speaks first.
			for _, lead := range []time.Duration{-time.Second, 0, time.Second} {
				for _, advertises := range []bool{false, true} {
					healed(t, known, advertises, after, lead)
				}
			}
		}
	}
}

func healed(t *testing.T, known, advertises bool, after, lead time.Duration) {
	t.Helper()
	p := &pair{now: time.Unix(1000, 0), cut: true, advertises: advertises, macs: [2]net.HardwareAddr{fellow, lower}, ips: [2]netip.Addr{fellow1, fellow1.Next()}}
	var told [2]*recorded
	for i := range p.nodes {
		told[i] = &recorded{said: map[netip.Addr]string{}, joined: map[netip.Addr]bool{}}
		p.nodes[i] = newClaims(end{p, i}, p.macs[i], told[i], slog.New(slog.DiscardHandler))
		plan := holds(ip1)
		plan.fellows = map[netip.Addr]bool{p.ips[1-i]: true}
		begin := p.now
		if i == 0 {
			begin = begin.Add(time.Second - lead)
		} else {
			begin = begin.Add(time.Second)
		}
		p.nodes[i].follow(plan, begin)
		if known {
			p.nodes[i].hear(heard{from: p.macs[1-i], sender: p.ips[1-i], target: nobody}, p.now)
		}
	}
	if got := p.pass(10*time.Second + after); got != [2]bool{true, true} {
		t.Fatalf("known %t, cut: held by %v", known, got)
	}
	p.cut, p.gaps = false, 0
	for i := range 5 {
		if got := p.pass(2 * announceAgain); got != [2]bool{false, true} || p.gaps > 0 {
			t.Errorf("known %t, heard again after %s, lead %s, look %d: held by %v, %d gaps", known, after, lead, i, got, p.gaps)
		}
	}
	for i := range told {
		if did := told[i].took(); strings.Contains(did, "used by") {
			t.Errorf("known %t, node %d: %s", known, i, did)
		}
	}
}
