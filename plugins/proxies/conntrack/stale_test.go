package conntrack

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/proxy"
)

func inIPv4(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Is4()
}

// TestStale: a UDP flow to an address of a service is stale unless an endpoint that serves
// answers it; what endpoints do not serve any more counts, what policies say does not.
func TestStale(t *testing.T) {
	s := NewStale()
	if !s.Empty() {
		t.Error("without a service flows may be stale")
	}
	endpoints := ServingOf([]*proxy.Endpoint{
		{Ip: "10.244.0.2", Port: 53, Serving: true}, {Ip: "10.244.0.3", Port: 53, Serving: true, Terminating: true},
		{Ip: "10.244.0.4", Port: 53}, {Ip: "fd00::1", Port: 53, Serving: true}, {Ip: "10.244.0.5", Port: 1 << 17, Serving: true},
	}, inIPv4)
	if len(endpoints) != 2 {
		t.Errorf("endpoints %v", endpoints)
	}
	at := netip.MustParseAddr
	s.Add([]netip.Addr{at("10.96.0.10"), at("192.0.2.1")}, 53, 30053, endpoints)
	s.Add([]netip.Addr{at("10.96.0.11")}, 53, 30054, Serving{})
	s.Add([]netip.Addr{at("10.96.0.13")}, 1<<16+53, 1<<16+30055, endpoints)
	if s.Empty() || len(s.Fronts()) != 2 {
		t.Errorf("looked at: %v", s.Fronts())
	}
	for _, tc := range []struct {
		protocol uint8
		to       string
		port     uint16
		answers  string
		from     uint16
		stale    bool
	}{
		{unix.IPPROTO_UDP, "10.96.0.10", 53, "10.244.0.2", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.10", 53, "10.244.0.3", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.10", 53, "10.244.0.4", 53, true},
		{unix.IPPROTO_UDP, "10.96.0.10", 53, "10.244.0.2", 54, true},
		{unix.IPPROTO_UDP, "10.96.0.10", 53, "10.96.0.10", 53, true}, // began without an endpoint
		{unix.IPPROTO_UDP, "192.0.2.1", 53, "10.244.0.9", 53, true},
		{unix.IPPROTO_UDP, "198.51.100.1", 30053, "10.244.0.9", 53, true},
		{unix.IPPROTO_UDP, "198.51.100.1", 30053, "10.244.0.2", 53, false},
		{unix.IPPROTO_TCP, "10.96.0.10", 53, "10.244.0.9", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.11", 53, "10.244.0.9", 53, false}, // no proxy serves it
		{unix.IPPROTO_UDP, "198.51.100.1", 30054, "10.244.0.9", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.12", 53, "10.244.0.9", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.10", 54, "10.244.0.9", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.13", 53, "10.244.0.9", 53, false}, // of no port that packets have
	} {
		f := Flow{Protocol: tc.protocol}
		f.Original.Destination = netip.AddrPortFrom(at(tc.to), tc.port)
		f.Reply.Source = netip.AddrPortFrom(at(tc.answers), tc.from)
		if got := s.Match(f); got != tc.stale {
			t.Errorf("%+v: %t", tc, got)
		}
	}
	if s.Match(Flow{Protocol: unix.IPPROTO_UDP, Original: Tuple{Destination: netip.AddrPortFrom(netip.Addr{}, 53)}}) {
		t.Error("a flow without addresses is stale")
	}
}
