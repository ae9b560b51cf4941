package networkpolicy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// flows remembers whose addresses were, so that a pod which gets the address of another one
// gets none of its connections: what is tracked as established is not asked about.
//
// Who has an address the status of a pod says, which the pod's node writes. Another node may
// write what it likes there. So it is believed for addresses in the ranges of pods alone, not
// for those of this node's range, and not against a pod that was seen with the address before.
type flows struct {
	forget func(of func(ends) bool) error
	own    func() ([]netip.Addr, error) // of this machine
	ranges []netip.Prefix               // of the pods of all nodes

	owners map[netip.Addr][]string // ids of pods, in the order in which they came; nil: not known
	gone   map[netip.Addr]bool     // whose flows are to be forgotten
	sweep  bool                    // so are those of addresses of the node's ranges that no pod has
}

// ends are the addresses of a flow: who began it, whom it named, and who answers.
type ends [3]netip.Addr

func newFlows() flows { return flows{forget: forgetFlows, own: machineAddresses} }

func forgetFlows(of func(ends) bool) error {
	match := func(f conntrack.Flow) bool {
		return of(ends{f.Original.Source.Addr(), f.Original.Destination.Addr(), f.Reply.Source.Addr()})
	}
	var errs []error
	for _, family := range []conntrack.Family{conntrack.IPv4, conntrack.IPv6} {
		_, err := conntrack.Delete(family, match)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func machineAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	var out []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}

// follow forgets flows of addresses that are not the same pods' any more. It is called when the
// rules are in force that say so. Without policies pods are not known: with the first one, flows
// of addresses that no pod has are forgotten.
func (f *flows) follow(c *program.Cluster) error {
	if len(c.Policies) == 0 {
		f.owners, f.gone, f.sweep = nil, nil, false
		return nil
	}
	now := f.ownersOf(c)
	if f.owners == nil {
		f.sweep, f.gone = true, map[netip.Addr]bool{}
	}
	for a, before := range f.owners {
		if list := now[a]; len(list) == 0 || list[0] != before[0] {
			f.gone[a] = true
		}
	}
	f.owners = now
	if !f.pending() {
		return nil
	}
	own, err := f.own()
	if err != nil {
		return err
	}
	here := func(a netip.Addr) bool { return within(c.Ranges, a) && !slices.Contains(own, a) }
	stale := func(a netip.Addr) bool {
		return f.gone[a] && !slices.Contains(own, a) || f.sweep && here(a) && len(now[a]) == 0
	}
	err = f.forget(func(e ends) bool { return slices.ContainsFunc(e[:], stale) && slices.ContainsFunc(e[:], here) })
	if err == nil {
		clear(f.gone)
		f.sweep = false
	}
	return err
}

// ownersOf are the ids of the pods that have an address: of this node the one that was made last.
// Of another node those that had it before come first, in the order of then, so that a node which
// claims the address of a pod and lets it go cuts no flow of that pod.
func (f *flows) ownersOf(c *program.Cluster) map[netip.Addr][]string {
	fresh := map[netip.Addr][]*program.Pod{}
	for _, p := range c.Pods {
		for _, a := range p.Addresses {
			if node := within(c.Ranges, a); node && p.Local || !node && within(f.ranges, a) {
				fresh[a] = append(fresh[a], p)
			}
		}
	}
	now := make(map[netip.Addr][]string, len(fresh))
	for a, pods := range fresh {
		slices.SortFunc(pods, func(x, y *program.Pod) int {
			return cmp.Or(y.Created.Compare(x.Created), strings.Compare(idOf(y), idOf(x)))
		})
		ids := make([]string, len(pods))
		for i, p := range pods {
			ids[i] = idOf(p)
		}
		if within(c.Ranges, a) {
			now[a] = ids[:1]
			continue
		}
		list := make([]string, 0, len(ids))
		for _, id := range append(slices.Clone(f.owners[a]), ids...) {
			if slices.Contains(ids, id) && !slices.Contains(list, id) {
				list = append(list, id)
			}
		}
		now[a] = list
	}
	return now
}

func idOf(p *program.Pod) string { return p.UID + "/" + p.Namespace + "/" + p.Name }

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// pending says that flows are to be forgotten still.
func (f *flows) pending() bool { return f.sweep || len(f.gone) > 0 }
