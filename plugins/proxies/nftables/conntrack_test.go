package nftables

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/sdk/proxy"
)

// TestStaleFlows: a UDP flow to an address of a service is stale unless an endpoint that serves
// answers it; what endpoints do not serve any more counts, what policies say does not.
func TestStaleFlows(t *testing.T) {
	s := newStaleFlows()
	endpoints := ipv4.servingOf([]*proxy.Endpoint{
		{Ip: "10.244.0.2", Port: 53, Serving: true}, {Ip: "10.244.0.3", Port: 53, Serving: true, Terminating: true},
		{Ip: "10.244.0.4", Port: 53}, {Ip: "fd00::1", Port: 53, Serving: true}, {Ip: "10.244.0.5", Port: 1 << 17, Serving: true},
	})
	if len(endpoints) != 2 {
		t.Errorf("endpoints %v", endpoints)
	}
	s.add(ipv4, []string{"10.96.0.10", "192.0.2.1", "fd00::10", "nonsense"}, 53, 30053, endpoints)
	s.add(ipv4, []string{"10.96.0.11"}, 53, 30054, serving{})
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
		{unix.IPPROTO_UDP, "10.96.0.11", 53, "10.244.0.9", 53, false}, // nobody serves it
		{unix.IPPROTO_UDP, "198.51.100.1", 30054, "10.244.0.9", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.12", 53, "10.244.0.9", 53, false},
		{unix.IPPROTO_UDP, "10.96.0.10", 54, "10.244.0.9", 53, false},
	} {
		flow := &netlink.ConntrackFlow{
			Forward: netlink.IPTuple{Protocol: tc.protocol, DstIP: net.ParseIP(tc.to), DstPort: tc.port},
			Reverse: netlink.IPTuple{Protocol: tc.protocol, SrcIP: net.ParseIP(tc.answers), SrcPort: tc.from},
		}
		if got := s.MatchConntrackFlow(flow); got != tc.stale {
			t.Errorf("%+v: %t", tc, got)
		}
	}
	if s.MatchConntrackFlow(&netlink.ConntrackFlow{Forward: netlink.IPTuple{Protocol: unix.IPPROTO_UDP, DstPort: 53}}) {
		t.Error("a flow without addresses is stale")
	}
}
