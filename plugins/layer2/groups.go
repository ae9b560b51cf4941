package layer2

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
	"golang.org/x/sys/unix"
)

// mostGroups is how many groups one socket is a member of: Linux bounds the memory of a
// socket's options (net.core.optmem_max), and has some 400 in it.
const mostGroups = 128

// groups are the solicited-node multicast groups that a link is a member of. The kernel tells
// the network's switches, and the interface. Addresses with the same last 24 bits share a
// group. One goroutine calls its methods.
type groups struct {
	ifi     *net.Interface
	joined  map[netip.Addr]*membership
	sockets []*memberSocket
}

type membership struct {
	addresses int
	socket    *memberSocket
}

// memberSocket is a socket of UDP without a port: it is a member, and nothing reaches it.
type memberSocket struct {
	fd, count int
}

func (s *memberSocket) set(option int, ifi *net.Interface, group netip.Addr) error {
	return unix.SetsockoptIPv6Mreq(s.fd, unix.IPPROTO_IPV6, option, &unix.IPv6Mreq{Multiaddr: group.As16(), Interface: uint32(ifi.Index)})
}

func newGroups(ifi *net.Interface) *groups {
	return &groups{ifi: ifi, joined: map[netip.Addr]*membership{}}
}

// join makes the link a member of the group of an address.
func (g *groups) join(ip netip.Addr) error {
	group, err := ndp.SolicitedNodeMulticast(ip)
	if err != nil {
		return err
	}
	if m := g.joined[group]; m != nil {
		m.addresses++
		return nil
	}
	// It counts also where it fails, so that leave is the reverse.
	m := &membership{addresses: 1}
	g.joined[group] = m
	s, err := g.free()
	if err == nil {
		err = s.set(unix.IPV6_JOIN_GROUP, g.ifi, group)
	}
	if err != nil {
		return fmt.Errorf("join group %s on %s: %w", group, g.ifi.Name, err)
	}
	s.count++
	m.socket = s
	return nil
}

// free is a socket that has room.
func (g *groups) free() (*memberSocket, error) {
	for _, s := range g.sockets {
		if s.count < mostGroups {
			return s, nil
		}
	}
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &memberSocket{fd: fd}
	g.sockets = append(g.sockets, s)
	return s, nil
}

// leave ends it when no other address needs the group.
func (g *groups) leave(ip netip.Addr) {
	group, err := ndp.SolicitedNodeMulticast(ip)
	if err != nil {
		return
	}
	m := g.joined[group]
	if m == nil {
		return
	}
	if m.addresses--; m.addresses > 0 {
		return
	}
	delete(g.joined, group)
	if m.socket != nil {
		m.socket.count--
		_ = m.socket.set(unix.IPV6_LEAVE_GROUP, g.ifi, group) // fails where the interface is gone
	}
}

// close leaves all.
func (g *groups) close() (err error) {
	for _, s := range g.sockets {
		err = errors.Join(err, unix.Close(s.fd))
	}
	g.sockets, g.joined = nil, map[netip.Addr]*membership{}
	return err
}
