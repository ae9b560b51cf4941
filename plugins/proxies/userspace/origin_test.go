package userspace

import (
	"errors"
	"net"
	"testing"

	"pintle.dev/pintle/plugins/proxies/serviceport"
	"pintle.dev/pintle/sdk/proxy"
)

// Who is inside of the cluster, and whom source ranges let pass.
func TestOrigin(t *testing.T) {
	o := newOrigin(proxy.Options{NodeIPs: []string{"192.0.2.10"}, ClusterCIDRs: []string{"10.244.0.0/16"}})
	o.own = func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("192.0.2.10"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for client, want := range map[string]bool{
		"10.244.3.4": true, "::ffff:10.244.3.4": true, "127.0.0.1": true, "192.0.2.10": true,
		"192.0.2.11": false, "198.51.100.1": false, "": false, "10.244.3.4.5": false,
	} {
		if o.inside(client) != want {
			t.Errorf("inside(%q) = %v", client, !want)
		}
	}
	choose := func(string, bool) (serviceport.Endpoint, error) { return serviceport.Endpoint{IP: "10.244.0.1"}, nil }
	port := func(ranges ...string) *serviceport.Port {
		return &serviceport.Port{LoadBalancerIPs: []string{"203.0.113.1"}, Restricted: true, SourceRanges: ranges}
	}
	for _, tc := range []struct {
		port   *serviceport.Port
		client string
		want   bool
	}{
		{&serviceport.Port{}, "198.51.100.1", true},
		{port("198.51.100.0/24"), "198.51.100.1", true},
		{port("198.51.100.0/24"), "198.51.101.1", false},
		{port(), "198.51.100.1", false},
		{port("198.51.100.0/24"), "203.0.113.1", false}, // the node is not within
		{port("192.0.2.0/24"), "203.0.113.1", true},     // the node asks by the balancer's address
		{port("198.51.100.0/24"), "nonsense", false},
	} {
		_, err := o.restrict(tc.port, choose)(tc.client, false)
		if (err == nil) != tc.want || err != nil && !errors.Is(err, errNotAllowed) {
			t.Errorf("%v, %s: %v", tc.port.SourceRanges, tc.client, err)
		}
	}
}
