package listener

import (
	"net"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Listener is one port that is listened on.
type Listener struct {
	Owner   string // for messages, such as "the API server"
	Address string // the IP that it is bound to; empty or unspecified: all of the machine's
	Port    int32
}

// Set is what is listened on.
type Set []Listener

// Taken finds the listener that somebody else's use of a port would hide. ip
// is the address of the port in question; empty or unspecified stands for all.
func (s Set) Taken(protocol corev1.Protocol, ip string, port int32) (Listener, bool) {
	if protocol != "" && protocol != corev1.ProtocolTCP {
		return Listener{}, false
	}
	for _, l := range s {
		if l.Port == port && port != 0 && (every(l.Address) || every(ip) || same(l.Address, ip)) {
			return l, true
		}
	}
	return Listener{}, false
}

// every tells an address that stands for all of the machine's, or is none: what
// cannot be read is taken to mean all.
func every(ip string) bool {
	a, err := netip.ParseAddr(ip)
	return err != nil || a.Unmap().IsUnspecified()
}

func same(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	return errX == nil && errY == nil && x.Unmap() == y.Unmap()
}

// Local tells that an address is one of this machine's.
func Local(ip string) (bool, error) {
	want, err := netip.ParseAddr(ip)
	if err != nil {
		return false, nil // nobody's
	}
	if want.Unmap().IsLoopback() {
		return true, nil
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return false, err
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().WithZone("") == want.Unmap().WithZone("") {
			return true, nil
		}
	}
	return false, nil
}
