package nftables

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/proxy"
)

// staleFlows finds UDP flows that the kernel tracks to an endpoint which is gone, or that began
// when there was none. TCP connections end by themselves; every packet keeps a UDP flow alive,
// so that it would never move. As kube-proxy does, it compares with all endpoints that serve,
// whatever policies and hints say: a change of a service ends no flow.
type staleFlows struct {
	fronts    map[netip.AddrPort]serving
	nodePorts map[uint16]serving
}

func newStaleFlows() *staleFlows {
	return &staleFlows{map[netip.AddrPort]serving{}, map[uint16]serving{}}
}

// serving are the endpoints of a service's port that serve.
type serving map[netip.AddrPort]bool

var _ netlink.CustomConntrackFilter = (*staleFlows)(nil)

// MatchConntrackFlow reports whether a flow goes where it should no more.
func (s *staleFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	answers := addrPort(flow.Reverse.SrcIP, flow.Reverse.SrcPort)
	if endpoints, ok := s.fronts[addrPort(flow.Forward.DstIP, flow.Forward.DstPort)]; ok {
		return !endpoints[answers]
	}
	if endpoints, ok := s.nodePorts[flow.Forward.DstPort]; ok {
		return !endpoints[answers]
	}
	return false
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}

// servingOf are the endpoints of one family that serve.
func (f *family) servingOf(list []*proxy.Endpoint) serving {
	out := serving{}
	for _, e := range list {
		a, ours := f.parse(e.GetIp())
		port, valid := portNumber(int(e.GetPort()))
		if ours && valid && e.GetServing() {
			out[netip.AddrPortFrom(a, port)] = true
		}
	}
	return out
}

// add looks for flows of a port with the addresses that it is served on. One without endpoints
// that serve keeps its flows.
func (s *staleFlows) add(f *family, addresses []string, number, nodePort int, endpoints serving) {
	if len(endpoints) == 0 {
		return
	}
	for _, text := range addresses {
		if a, ok := f.parse(text); ok {
			s.fronts[netip.AddrPortFrom(a, uint16(number))] = endpoints
		}
	}
	if n, ok := portNumber(nodePort); ok {
		s.nodePorts[n] = endpoints
	}
}

// forgetFlows deletes flows from the kernel's table. A list that was cut short is read again.
func forgetFlows(f *family, gone *staleFlows) error {
	for range 5 {
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, f.conntrack, gone)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, netlink.ErrDumpInterrupted), errors.Is(err, unix.EINTR):
		default:
			return fmt.Errorf("forget UDP flows of %s: %w", f.name, err)
		}
	}
	return nil // what is left is found with the next change
}
