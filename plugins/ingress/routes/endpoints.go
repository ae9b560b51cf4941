package routes

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

const (
	// maxEndpoints of one backend take turns.
	maxEndpoints = 1000
	// maxLooks is how many endpoints are looked at for the backends of one namespace.
	maxLooks = 50_000
)

// endpoints are the addresses of a port of a Service, by its name: those that are ready,
// and where there is none, those that still serve while they terminate.
func endpoints(all []*discoveryv1.EndpointSlice, port string, left *int) []string {
	ready, serving := map[string]bool{}, map[string]bool{}
	for _, s := range all {
		if s.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for i := range s.Ports {
			p := &s.Ports[i]
			if ptr.Deref(p.Name, "") != port || p.Port == nil || ptr.Deref(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
				continue
			}
			for j := range s.Endpoints {
				if *left <= 0 || len(ready) >= maxEndpoints {
					break
				}
				*left--
				e := &s.Endpoints[j]
				into := ready
				if !ptr.Deref(e.Conditions.Ready, true) {
					into = serving
					if !ptr.Deref(e.Conditions.Serving, false) || !ptr.Deref(e.Conditions.Terminating, false) {
						continue
					}
				}
				for _, a := range e.Addresses {
					if reachable(a) {
						into[net.JoinHostPort(a, strconv.Itoa(int(*p.Port)))] = true
					}
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = serving
	}
	out := make([]string, 0, len(ready))
	for a := range ready {
		out = append(out, a)
	}
	slices.Sort(out)
	return out[:min(len(out), maxEndpoints)]
}

// reachable leaves out what the API refuses in a slice, whoever wrote it: addresses by
// which the machine talks to itself or to its link.
func reachable(text string) bool {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	return !a.IsLoopback() && !a.IsUnspecified() && !a.IsLinkLocalUnicast() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
