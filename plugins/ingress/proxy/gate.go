package proxy

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// gate bounds the connections of clients.
type gate struct {
	most, each int

	mu     sync.Mutex
	count  int
	byAddr map[netip.Addr]int
	open   map[*counted]bool
}

func newGate(most, each int) *gate {
	return &gate{most: most, each: each, byAddr: map[netip.Addr]int{}, open: map[*counted]bool{}}
}

// listener closes what is too much at once: its client learns it, and costs nothing more.
func (g *gate) listener(inner net.Listener, trusts func(netip.Addr) bool) net.Listener {
	return &gated{inner, g, trusts}
}

type gated struct {
	net.Listener
	gate   *gate
	trusts func(netip.Addr) bool
}

func (l *gated) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, trusted := clientOf(c.RemoteAddr().String(), l.trusts)
		if l.gate.enter(from, trusted) {
			return l.gate.keep(c, from), nil
		}
		refusedConnections.Inc()
		c.Close()
	}
}

// enter takes a connection in; a trusted proxy may have more than each.
func (g *gate) enter(from netip.Addr, trusted bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.count >= g.most || g.byAddr[from] >= g.each && !trusted {
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

// keep remembers a connection until it is closed.
func (g *gate) keep(c net.Conn, from netip.Addr) net.Conn {
	kept := &counted{Conn: c}
	kept.leave = sync.OnceFunc(func() {
		g.leave(from)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, kept)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[kept] = true
	return kept
}

// closeAll closes those that no server closes: connections that were upgraded.
func (g *gate) closeAll() {
	g.mu.Lock()
	var all []*counted
	for c := range g.open {
		all = append(all, c)
	}
	g.mu.Unlock()
	for _, c := range all {
		c.Close()
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

// SyscallConn implements syscall.Conn.
func (c *counted) SyscallConn() (syscall.RawConn, error) {
	of, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return of.SyscallConn()
}

// clientOf is the address that counts of HOST:PORT, and whether it is a trusted proxy's.
func clientOf(hostport string, trusts func(netip.Addr) bool) (netip.Addr, bool) {
	ap, err := netip.ParseAddrPort(hostport)
	return addressOf(hostport), err == nil && trusts(ap.Addr().Unmap().WithZone(""))
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

// budget bounds the requests under way: of all, to one namespace, of one client.
type budget struct {
	most, namespace, client int

	mu       sync.Mutex
	count    int
	to       map[string]int
	of       map[netip.Addr]int
	closed   bool
	finished chan struct{} // closed when closed and count is 0
}

func newBudget(most, namespace, client int) *budget {
	return &budget{
		most: most, namespace: namespace, client: client,
		to: map[string]int{}, of: map[netip.Addr]int{}, finished: make(chan struct{}),
	}
}

// admit takes a request of a client in, wherever it leads; a trusted proxy may have more
// than client.
func (b *budget) admit(client netip.Addr, trusted bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.count >= b.most || b.of[client] >= b.client && !trusted {
		return false
	}
	b.count++
	b.of[client]++
	return true
}

// lead counts a request that was admitted for a namespace as well.
func (b *budget) lead(namespace string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.to[namespace] >= b.namespace {
		return false
	}
	b.to[namespace]++
	return true
}

// arrive takes back what lead counted.
func (b *budget) arrive(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.to[namespace]--; b.to[namespace] == 0 {
		delete(b.to, namespace)
	}
}

// release takes back what admit counted.
func (b *budget) release(client netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count--
	if b.of[client]--; b.of[client] == 0 {
		delete(b.of, client)
	}
	if b.closed && b.count == 0 {
		close(b.finished)
	}
}

// enter is admit and lead in one.
func (b *budget) enter(namespace string, client netip.Addr, trusted bool) bool {
	if !b.admit(client, trusted) {
		return false
	}
	if !b.lead(namespace) {
		b.release(client)
		return false
	}
	return true
}

// leave takes back what enter counted.
func (b *budget) leave(namespace string, client netip.Addr) {
	b.arrive(namespace)
	b.release(client)
}

// end lets no request in any more; the channel is closed when none is under way.
func (b *budget) end() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		if b.count == 0 {
			close(b.finished)
		}
	}
	return b.finished
}
