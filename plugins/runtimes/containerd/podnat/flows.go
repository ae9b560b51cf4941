package podnat

import (
	"errors"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// staleFlows finds UDP flows that the kernel tracks to where a host port leads no more. TCP
// connections end by themselves; every packet keeps a UDP flow alive, so that it would never
// move.
type staleFlows struct {
	sandbox Sandbox
	gone    bool                // flows to the sandbox are stale, else those elsewhere
	machine map[netip.Addr]bool // addresses of this machine
}

var _ netlink.CustomConntrackFilter = (*staleFlows)(nil)

// MatchConntrackFlow reports whether a flow goes where it should no more.
func (s *staleFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	asked, answers := addrPort(flow.Forward.DstIP, flow.Forward.DstPort), addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort)
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

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}

// forgetFlows deletes UDP flows from the kernel's table: with gone those to a sandbox, else
// those that its host ports led elsewhere. A kernel that shows no flows keeps them until they
// are silent for a while, which is no reason not to start a pod.
func forgetFlows(s Sandbox, gone bool) {
	if !slices.ContainsFunc(s.Ports, func(p Port) bool { return p.Protocol == "udp" }) {
		return
	}
	stale := &staleFlows{sandbox: s, gone: gone, machine: map[netip.Addr]bool{}}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return
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
		for range 5 { // a list that was cut short is read again
			_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, f.conntrack, stale)
			if !errors.Is(err, netlink.ErrDumpInterrupted) && !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
}
