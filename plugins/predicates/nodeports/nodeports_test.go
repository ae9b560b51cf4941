package nodeports

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func TestFilter(t *testing.T) {
	udp := func(ip string) []sdk.HostPort { return []sdk.HostPort{{Port: 8080, Protocol: "UDP", HostIP: ip}} }
	tcp := func(port int32, ip string) []sdk.HostPort {
		return []sdk.HostPort{{Port: port, Protocol: "TCP", HostIP: ip}}
	}
	for _, c := range []struct {
		name        string
		wanted, has []sdk.HostPort
		fit         bool
	}{
		{"skip filter", nil, udp("127.0.0.1"), true},
		{"other port", udp("127.0.0.1"), []sdk.HostPort{{Port: 9090, Protocol: "UDP", HostIP: "127.0.0.1"}}, true},
		{"same udp port", udp("127.0.0.1"), udp("127.0.0.1"), false},
		{"same tcp port", tcp(8080, "127.0.0.1"), tcp(8080, "127.0.0.1"), false},
		{"different host ip", tcp(8080, "127.0.0.1"), tcp(8080, "127.0.0.2"), true},
		{"different protocol", udp("127.0.0.1"), tcp(8080, "127.0.0.1"), true},
		{"TCP hostPort conflict due to 0.0.0.0 hostIP", tcp(8001, "127.0.0.1"), tcp(8001, "0.0.0.0"), false},
		{"UDP hostPort conflict due to no hostIP", udp("127.0.0.1"), udp(""), false},
		{"no protocol is TCP", []sdk.HostPort{{Port: 8080}}, tcp(8080, ""), false},
		{"0 is no port", tcp(0, ""), tcp(0, ""), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &sdk.Node{Pods: map[string]*sdk.Pod{"u": {HostPorts: c.has}}}
			v := New().Filter(&sdk.Request{Pod: &sdk.Pod{HostPorts: c.wanted}, Node: node})
			if v.Fit() != c.fit || v.Unresolvable || !c.fit && v.Reasons[0] != "node(s) didn't have free ports for the requested pod ports" {
				t.Errorf("verdict %+v, want fit %v", v, c.fit)
			}
		})
	}
}
