package conntrack

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Stale finds UDP flows that the kernel tracks to an endpoint which is gone, or that began
// when there was none. TCP connections end by themselves; every packet keeps a UDP flow alive,
// so that it would never move. As kube-proxy does, it compares with all endpoints that serve,
// whatever policies and hints say: a change of a service ends no flow.
type Stale struct {
	fronts    map[netip.AddrPort]Serving
	nodePorts map[uint16]Serving
}

// Serving are the endpoints of a service's port that serve.
type Serving map[netip.AddrPort]bool

// NewStale finds nothing yet.
func NewStale() *Stale {
	return &Stale{map[netip.AddrPort]Serving{}, map[uint16]Serving{}}
}

// Endpoint is one of a service, as the proxies' contract has it. That is not imported: small
// programs, which start for each pod, delete flows too.
type Endpoint interface {
	GetIp() string
	GetPort() int32
	GetServing() bool
}

// ServingOf are the endpoints that serve, of those that the function takes for addresses of
// its family.
func ServingOf[E Endpoint](list []E, parse func(string) (netip.Addr, bool)) Serving {
	out := Serving{}
	for _, e := range list {
		a, ours := parse(e.GetIp())
		port := e.GetPort()
		if ours && port > 0 && port < 1<<16 && e.GetServing() {
			out[netip.AddrPortFrom(a, uint16(port))] = true
		}
	}
	return out
}

// Add looks for flows of a port of a service: at the addresses that it is served on, and at its
// node port (0: none). One without endpoints that serve keeps its flows.
func (s *Stale) Add(addresses []netip.Addr, port, nodePort int, endpoints Serving) {
	if len(endpoints) == 0 {
		return
	}
	if port > 0 && port < 1<<16 {
		for _, a := range addresses {
			s.fronts[netip.AddrPortFrom(a, uint16(port))] = endpoints
		}
	}
	if nodePort > 0 && nodePort < 1<<16 {
		s.nodePorts[uint16(nodePort)] = endpoints
	}
}

// Merge adds what another one looks for and this one, which is newer, does not.
func (s *Stale) Merge(older *Stale) {
	for front, endpoints := range older.fronts {
		if _, newer := s.fronts[front]; !newer {
			s.fronts[front] = endpoints
		}
	}
	for port, endpoints := range older.nodePorts {
		if _, newer := s.nodePorts[port]; !newer {
			s.nodePorts[port] = endpoints
		}
	}
}

// Empty reports that no flow can match.
func (s *Stale) Empty() bool { return len(s.fronts)+len(s.nodePorts) == 0 }

// Fronts are the addresses whose flows are looked at, with the endpoints that may answer.
func (s *Stale) Fronts() map[netip.AddrPort]Serving { return s.fronts }

// Match reports whether a flow goes where it should no more.
func (s *Stale) Match(f Flow) bool {
	if f.Protocol != unix.IPPROTO_UDP {
		return false
	}
	if endpoints, ok := s.fronts[f.Original.Destination]; ok {
		return !endpoints[f.Reply.Source]
	}
	if endpoints, ok := s.nodePorts[f.Original.Destination.Port()]; ok {
		return !endpoints[f.Reply.Source]
	}
	return false
}
