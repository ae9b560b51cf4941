package podnat

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/conntrack"
)

// staleFlows finds UDP flows that the kernel tracks to where a host port leads no more. TCP
// connections end by themselves; every packet keeps a UDP flow alive, so that it would never
// move.
type staleFlows struct {
	sandbox Sandbox
	gone    bool                // flows to the sandbox are stale, else those elsewhere
	machine map[netip.Addr]bool // addresses of this machine
}

// match reports whether a flow goes where it should no more.
func (s *staleFlows) match(flow conntrack.Flow) bool {
	if flow.Protocol != unix.IPPROTO_UDP {
		return false
	}
	asked, answers := flow.Original.Destination, flow.Reply.Source
	for _, p := range s.sandbox.Ports {
		switch {
		case p.Protocol != "udp" || p.HostPort != asked.Port():
			continue
		case p.HostIP.IsValid() && !p.HostIP.IsUnspecified():
			if p.HostIP != asked.Addr() {
				continue
			}
		case !s.machine[asked.Addr()] && !asked.Addr().IsLoopback():
			continue
		}
		here := p.ContainerPort == answers.Port() && slices.ContainsFunc(s.sandbox.Addresses, func(a netip.Prefix) bool { return a.Addr() == answers.Addr() })
		if here == s.gone {
			return true
		}
	}
	return false
}

// forgetFlows deletes UDP flows from the kernel's table: with gone those to a sandbox, else
// those that its host ports led elsewhere. A kernel that cannot show flows keeps them until
// they are silent for a while, which is no reason not to start a pod.
func forgetFlows(s Sandbox, gone bool) error {
	if !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Protocol == "udp" }) {
		return nil
	}
	stale := &staleFlows{sandbox: s, gone: gone, machine: map[netip.Addr]bool{}}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("forget UDP flows of sandbox %s: %w", s.ID, err)
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			stale.machine[p.Addr().Unmap().WithZone("")] = true
		}
	}
	for _, f := range families {
		if !slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return f.has(a.Addr()) }) {
			continue
		}
		// Where the table changes faster than it is read, what is left belongs to flows that are
		// new: these go by the rules.
		if _, err := conntrack.Delete(f.conntrack, stale.match); err != nil && !lacking(err) && !errors.Is(err, conntrack.ErrMore) {
			return fmt.Errorf("forget UDP flows of sandbox %s: %w", s.ID, err)
		}
	}
	return nil
}
