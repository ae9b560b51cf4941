package server

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"pintle.dev/pintle/plugins/dns/corefile"
)

func init() { plugin.Register(corefile.ClientsDirective, setupClients) }

// share of the queries in flight that one client may have: a pod that asks for what
// takes long leaves room for the others.
const share = 4

// clients is a plugin of CoreDNS: it answers those that the node names, and a bounded
// number of queries at a time. Who is not named gets no answer, so that nobody can have
// answers sent to somebody else; who asks for too much is refused.
type clients struct {
	next  plugin.Handler
	allow ranges
	most  int

	mu      sync.Mutex
	flight  int
	flights map[netip.Addr]int
}

// ranges are addresses of those who are answered.
type ranges []netip.Prefix

func (r ranges) contain(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(r, func(p netip.Prefix) bool { return p.Contains(a) })
}

// parseRanges reads addresses and ranges.
func parseRanges(list []string) (ranges, error) {
	var out ranges
	for _, text := range list {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func setupClients(c *caddy.Controller) error {
	h := &clients{flights: map[netip.Addr]int{}}
	for c.Next() {
		args := c.RemainingArgs()
		if len(args) < 2 {
			return plugin.Error(corefile.ClientsDirective, c.ArgErr())
		}
		var err error
		if h.most, err = strconv.Atoi(args[0]); err == nil {
			h.allow, err = parseRanges(args[1:])
		}
		if err != nil {
			return plugin.Error(corefile.ClientsDirective, err)
		}
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.next = next
		return h
	})
	return nil
}

// Name implements plugin.Handler.
func (h *clients) Name() string { return corefile.ClientsDirective }

// ServeDNS implements plugin.Handler.
func (h *clients) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	from := addressOf(w.RemoteAddr())
	if !h.allow.contain(from) {
		return dns.RcodeSuccess, nil // to the server: it is answered
	}
	if !h.enter(from) {
		return dns.RcodeRefused, nil
	}
	defer h.leave(from)
	return plugin.NextOrFailure(h.Name(), h.next, ctx, w, r)
}

// addressOf is that of a client; none for one that is unknown, which no range contains.
func addressOf(from net.Addr) netip.Addr {
	switch a := from.(type) {
	case *net.UDPAddr:
		return a.AddrPort().Addr().Unmap().WithZone("")
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

func (h *clients) enter(from netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.flight >= h.most || h.flights[from] >= max(1, h.most/share) {
		return false
	}
	h.flight++
	h.flights[from]++
	return true
}

func (h *clients) leave(from netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flight--
	if h.flights[from]--; h.flights[from] == 0 {
		delete(h.flights, from)
	}
}
