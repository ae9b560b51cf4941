package server

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"pintle.dev/pintle/plugins/dns/corefile"
)

func init() { plugin.Register(corefile.ClientsDirective, setupClients) }

// clients is a plugin of CoreDNS: it answers those that the node names, and a bounded
// number of queries at a time. Who is not named gets no answer, so that nobody can have
// answers sent to somebody else; who asks for too much is refused.
type clients struct {
	next  plugin.Handler
	allow ranges
	*flights
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
	h := &clients{}
	for c.Next() {
		args := c.RemainingArgs()
		if len(args) < 2 {
			return plugin.Error(corefile.ClientsDirective, c.ArgErr())
		}
		most, err := strconv.Atoi(args[0])
		if err == nil {
			h.flights = newFlights(most)
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
