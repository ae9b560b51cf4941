package server

import (
	"context"
	"strconv"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"

	"pintle.dev/pintle/plugins/dns/corefile"
)

func init() { plugin.Register(corefile.WaitingDirective, setupWaiting) }

// waiting is a plugin of CoreDNS, the last one before those that ask other nameservers: it
// bounds the queries that wait for them. They may be fewer than those in flight, in all and
// of each client, so that names of the cluster and what is kept have room however slow
// another nameserver is.
type waiting struct {
	next plugin.Handler
	*flights
}

func setupWaiting(c *caddy.Controller) error {
	h := &waiting{}
	for c.Next() {
		args := c.RemainingArgs()
		if len(args) != 1 {
			return plugin.Error(corefile.WaitingDirective, c.ArgErr())
		}
		most, err := strconv.Atoi(args[0])
		if err != nil {
			return plugin.Error(corefile.WaitingDirective, err)
		}
		h.flights = newFlights(most)
	}
	dnsserver.GetConfig(c).AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.next = next
		return h
	})
	return nil
}

// Name implements plugin.Handler.
func (h *waiting) Name() string { return corefile.WaitingDirective }

// ServeDNS implements plugin.Handler.
func (h *waiting) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	from := addressOf(w.RemoteAddr())
	if !h.enter(from) {
		return dns.RcodeRefused, nil
	}
	defer h.leave(from)
	return plugin.NextOrFailure(h.Name(), h.next, ctx, w, r)
}
