package networkpolicy

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// flows remembers whose addresses were, so that a pod which gets the address of another one
// gets none of its connections: what is tracked as established is not asked about.
type flows struct {
	forget func(of func(netip.Addr) bool) error
	own    func() []netip.Addr // of this machine

	owners map[netip.Addr]string // ids of pods; nil: not known
	gone   map[netip.Addr]bool   // whose flows are to be forgotten
	sweep  bool                  // so are those of addresses of the node's ranges that no pod has
}

func newFlows() flows { return flows{forget: forgetFlows, own: machineAddresses} }

func forgetFlows(of func(netip.Addr) bool) error {
	match := func(f conntrack.Flow) bool {
		return of(f.Original.Source.Addr()) || of(f.Original.Destination.Addr()) || of(f.Reply.Source.Addr())
	}
	var errs []error
	for _, family := range []conntrack.Family{conntrack.IPv4, conntrack.IPv6} {
		_, err := conntrack.Delete(family, match)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func machineAddresses() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil // they are looked up for a courtesy
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}

// follow forgets flows of addresses that are not the same pods' any more. It is called when the
// rules are in force that say so. Without policies pods are not known: with the first one, flows
// of addresses that no pod has are forgotten.
func (f *flows) follow(c *program.Cluster) error {
	if len(c.Policies) == 0 {
		f.owners, f.gone, f.sweep = nil, nil, false
		return nil
	}
	now := map[netip.Addr]string{}
	for a, p := range c.Owners() {
		now[a] = p.UID + "/" + p.Namespace + "/" + p.Name
	}
	if f.owners == nil {
		f.sweep, f.gone = true, map[netip.Addr]bool{}
	}
	for a, owner := range f.owners {
		if now[a] != owner {
			f.gone[a] = true
		}
	}
	f.owners = now
	if !f.pending() {
		return nil
	}
	var own []netip.Addr
	if f.sweep {
		own = f.own()
	}
	err := f.forget(func(a netip.Addr) bool {
		if f.gone[a] {
			return true
		}
		_, owned := now[a]
		return f.sweep && !owned && !slices.Contains(own, a) && slices.ContainsFunc(c.Ranges, func(r netip.Prefix) bool { return r.Contains(a) })
	})
	if err == nil {
		clear(f.gone)
		f.sweep = false
	}
	return err
}

// pending says that flows are to be forgotten still.
func (f *flows) pending() bool { return f.sweep || len(f.gone) > 0 }
