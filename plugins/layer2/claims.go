package layer2

import (
	"log/slog"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The numbers of RFC 5227, which NDP takes too: RFC 4862 asks for one probe at least. Times
// between probes are its shortest ones: a service waits.
const (
	probes        = 3
	probeEach     = time.Second
	announceWait  = 2 * time.Second
	announcements = 2
	announceEach  = 2 * time.Second
	defendEach    = 10 * time.Second
)

const (
	// lookAgain is how long an address rests that another machine has, before it is probed
	// again, and fellowAgain one that another node of the cluster still answers for.
	lookAgain   = 30 * time.Second
	fellowAgain = time.Second
	// spread is the time between the first probes of two addresses that come at once.
	spread = time.Millisecond
	// announceAgain is how often an address that is held is announced anew. Where another node
	// answered while this one was cut off, machines that heard it still send there.
	announceAgain = time.Minute
	// askEach is how often other nodes are asked which hardware address they have.
	askEach = 5 * time.Second
	// calm is how long packets have to be sent without a fault until a log says that it is over.
	calm = time.Minute
)

// heard is a packet of the link.
type heard struct {
	question bool             // it asks who has target
	foreign  bool             // another hardware address sent it: a bond, a router of VRRP, or a forger
	from     net.HardwareAddr // of the machine that says so
	sender   netip.Addr       // the address that it says it has; unspecified in a probe
	target   netip.Addr
}

// link sends packets of one IP family, ARP or NDP.
type link interface {
	// Join has the questions about an address reach this machine, and Leave ends that.
	Join(ip netip.Addr) error
	Leave(ip netip.Addr)
	// Probe asks which machine has an address, and names no sender.
	Probe(ip netip.Addr) error
	// Ask asks which machine has an address, and names this one as the sender.
	Ask(ip netip.Addr) error
	// Announce tells all machines that this one has an address.
	Announce(ip netip.Addr) error
	// Answer answers a question about an address.
	Answer(ip netip.Addr, q heard) error
}

type stage int

const (
	probing stage = iota
	waiting       // another machine has it
	holding
)

// claim is an address that this node is to answer for.
type claim struct {
	service  *corev1.Service
	stage    stage
	sent     int       // probes, or announcements
	next     time.Time // when something is to be done; zero: never
	defended time.Time // the last time
}

// claims are those of a node on one link. One goroutine calls its methods.
type claims struct {
	link  link
	own   net.HardwareAddr
	tell  teller
	log   *slog.Logger
	asked time.Time
	fault time.Time // when a packet was not sent last; zero: the end of that is logged
	view  string    // of the last plan
	left  map[netip.Addr]leftOut

	fellows map[netip.Addr]string // addresses of other nodes, and their hardware addresses as far as they are known
	held    map[netip.Addr]*claim
}

// teller says what becomes of addresses. It is called as long as something is so.
type teller interface {
	announced(ip netip.Addr, s *corev1.Service)
	inUse(ip netip.Addr, s *corev1.Service, by net.HardwareAddr)
	taken(ip netip.Addr, s *corev1.Service, node string)
	// forget says that what was said about an address is over.
	forget(ip netip.Addr)
}

func newClaims(l link, own net.HardwareAddr, t teller, log *slog.Logger) *claims {
	return &claims{link: l, own: own, tell: t, log: log, fellows: map[netip.Addr]string{}, held: map[netip.Addr]*claim{}}
}

// follow takes a plan in. Addresses that are not in it any more are not answered for from
// now on; new ones are probed first.
func (c *claims) follow(p plan, now time.Time) {
	for ip := range c.fellows {
		if !p.fellows[ip] {
			delete(c.fellows, ip)
		}
	}
	for ip := range p.fellows {
		if _, known := c.fellows[ip]; !known {
			c.fellows[ip], c.asked = "", time.Time{}
		}
	}
	for ip := range c.held {
		if p.hold[ip] == nil {
			delete(c.held, ip)
			c.link.Leave(ip)
			c.tell.forget(ip)
		}
	}
	for ip := range c.left {
		if p.left[ip].service == nil {
			c.tell.forget(ip)
		}
	}
	c.left = p.left
	for ip, l := range c.left {
		c.tell.taken(ip, l.service, l.node)
	}
	others := c.view != p.view
	c.view = p.view
	first := now
	for ip, s := range p.hold {
		have := c.held[ip]
		if have != nil && have.service.UID != s.UID {
			c.tell.forget(ip) // that was about another service
		}
		switch {
		case have == nil:
			c.held[ip] = &claim{service: s, next: first}
			c.did(now, "hear questions for", ip, c.link.Join(ip))
		case have.stage == holding && others:
			// Where another node answered while this one was cut off, machines still send there.
			have.service, have.sent, have.next = s, 0, first
		default:
			have.service = s
			continue
		}
		first = first.Add(spread)
	}
}

// due does what is due, and returns when it has to be called again; zero: after a change.
func (c *claims) due(now time.Time) (next time.Time) {
	for ip, h := range c.held {
		if !h.next.IsZero() && !h.next.After(now) {
			c.step(ip, h, now)
		}
		if !h.next.IsZero() && (next.IsZero() || h.next.Before(next)) {
			next = h.next
		}
	}
	return next
}

func (c *claims) step(ip netip.Addr, h *claim, now time.Time) {
	switch h.stage {
	case waiting:
		h.stage, h.sent = probing, 0
		fallthrough
	case probing:
		c.learn(now)
		if h.sent < probes {
			c.did(now, "probe", ip, c.link.Probe(ip))
			if h.sent++; h.sent < probes {
				h.next = now.Add(probeEach)
			} else {
				h.next = now.Add(announceWait)
			}
			return
		}
		h.stage, h.sent = holding, 0
		fallthrough
	case holding:
		c.tell.announced(ip, h.service)
		c.did(now, "announce", ip, c.link.Announce(ip))
		if h.sent++; h.sent < announcements {
			h.next = now.Add(announceEach)
		} else {
			h.next = now.Add(announceAgain)
		}
	}
}

// learn asks the other nodes for their hardware addresses, by which a node that answers is
// told from another machine.
func (c *claims) learn(now time.Time) {
	if now.Sub(c.asked) < askEach {
		return
	}
	c.asked = now
	for ip := range c.fellows {
		c.did(now, "ask for", ip, c.link.Ask(ip))
	}
}

// did logs the first packet of many that was not sent, and the end of that after a while.
func (c *claims) did(now time.Time, what string, ip netip.Addr, err error) {
	switch {
	case err != nil && c.fault.IsZero():
		c.log.Warn("a packet about an address was not sent; it goes on", "what", what, "address", ip, "error", err)
		fallthrough
	case err != nil:
		c.fault = now
	case !c.fault.IsZero() && now.Sub(c.fault) >= calm:
		c.fault = time.Time{}
		c.log.Info("packets about addresses are sent again")
	}
}

func (c *claims) isFellow(mac string) bool {
	for _, known := range c.fellows {
		if known == mac {
			return true
		}
	}
	return false
}

// hear takes a packet in.
func (c *claims) hear(p heard, now time.Time) {
	mac := string(p.from)
	if mac == string(c.own) {
		return
	}
	if _, is := c.fellows[p.sender]; is && !p.foreign {
		c.fellows[p.sender] = mac
	}
	if h := c.held[p.sender]; h != nil {
		c.contest(p.sender, h, p.from, now)
		return
	}
	h := c.held[p.target]
	if h == nil || !p.question {
		return
	}
	if h.stage == holding {
		if !p.foreign { // answers go to the machine that asked, and to no other
			c.did(now, "answer for", p.target, c.link.Answer(p.target, p))
		}
	} else if p.sender.IsUnspecified() && h.stage == probing && mac < string(c.own) {
		// Both begin to use it. One of them lets the other pass.
		h.stage, h.next = waiting, now.Add(probes*probeEach+announceWait)
	}
}

// contest is called when another machine says that it has an address.
func (c *claims) contest(ip netip.Addr, h *claim, by net.HardwareAddr, now time.Time) {
	fellow := c.isFellow(string(by))
	switch {
	case h.stage != holding:
		h.stage, h.next = waiting, now.Add(lookAgain)
		if fellow {
			h.next = now.Add(fellowAgain)
		} else {
			c.tell.inUse(ip, h.service, by)
		}
	case h.defended.IsZero() || now.Sub(h.defended) >= defendEach:
		if !fellow {
			// It may be a node that did not hear the last question.
			c.learn(now)
			if !h.defended.IsZero() {
				c.tell.inUse(ip, h.service, by)
			}
		}
		h.defended = now
		c.did(now, "defend", ip, c.link.Announce(ip))
	case fellow && string(by) < string(c.own):
		// Another node holds it too: the network was cut. One of them lets it go.
		h.stage, h.next, h.defended = waiting, now.Add(fellowAgain), time.Time{}
		c.tell.forget(ip)
	}
	// Others are not answered: two that defend an address answer each other for ever.
}
