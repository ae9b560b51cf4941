package proxy

import (
	"net"
	"net/netip"
	"sync"
)

// gate bounds the connections of clients.
type gate struct {
	most, each int

	mu     sync.Mutex
	count  int
	byAddr map[netip.Addr]int
}

func newGate(most, each int) *gate {
	return &gate{most: most, each: each, byAddr: map[netip.Addr]int{}}
}

// listener closes what is too much at once: its client learns it, and costs nothing more.
func (g *gate) listener(inner net.Listener) net.Listener { return &gated{inner, g} }

type gated struct {
	net.Listener
	gate *gate
}

func (l *gated) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := addressOf(c.RemoteAddr().String())
		if l.gate.enter(from) {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.gate.leave(from) })}, nil
		}
		refusedConnections.Inc()
		c.Close()
	}
}

func (g *gate) enter(from netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count >= g.most || g.byAddr[from] >= g.each {
		return false
	}
	g.count++
	g.byAddr[from]++
	return true
}

func (g *gate) leave(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.count--
	if g.byAddr[from]--; g.byAddr[from] == 0 {
		delete(g.byAddr, from)
	}
}

type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// addressOf is the IP address of HOST:PORT. An IPv6 client has its /64, of which it may
// have every address.
func addressOf(hostport string) netip.Addr {
	ap, err := netip.ParseAddrPort(hostport)
	if err != nil {
		return netip.Addr{}
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// budget bounds the requests under way, of all and of one namespace.
type budget struct {
	most, each int

	mu     sync.Mutex
	count  int
	by     map[string]int
	closed bool
	idle   chan struct{} // closed when closed and count is 0
}

func newBudget(most, each int) *budget {
	return &budget{most: most, each: each, by: map[string]int{}, idle: make(chan struct{})}
}

func (b *budget) enter(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.count >= b.most || b.by[namespace] >= b.each {
		return false
	}
	b.count++
	b.by[namespace]++
	return true
}

func (b *budget) leave(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count--
	if b.by[namespace]--; b.by[namespace] == 0 {
		delete(b.by, namespace)
	}
	if b.closed && b.count == 0 {
		close(b.idle)
	}
}

// end lets no request in any more; the channel is closed when none is under way.
func (b *budget) end() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		if b.count == 0 {
			close(b.idle)
		}
	}
	return b.idle
}
