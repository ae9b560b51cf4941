package podfitshostports

import (
	"testing"

	"pintle.dev/pintle/sdk"
)

func pod(ports ...sdk.HostPort) *sdk.Pod { return &sdk.Pod{HostPorts: ports} }

func TestFilter(t *testing.T) {
	tcp := func(p int32) sdk.HostPort { return sdk.HostPort{Port: p, Protocol: "TCP"} }
	busy := map[string]*sdk.Pod{"a": pod(tcp(80)), "b": pod(tcp(443), sdk.HostPort{Port: 0, Protocol: "TCP"})}
	for _, c := range []struct {
		name string
		pod  *sdk.Pod
		fit  bool
	}{
		{"T-1: free port", pod(tcp(8080)), true},
		{"T-1: taken port", pod(tcp(443)), false},
		{"T-1, PRD-5: no host port", pod(), true},
		{"PRD-2: one of several taken", pod(tcp(8080), tcp(80)), false},
		{"PRD-6: protocol takes no part", pod(sdk.HostPort{Port: 80, Protocol: "UDP"}), false},
		{"PRD-6: host address takes no part", pod(sdk.HostPort{Port: 80, Protocol: "TCP", HostIP: "127.0.0.2"}), false},
		{"PRD-7: port 0 never counts", pod(tcp(0)), true},
		{"PRD-2: above the range never counts", pod(tcp(65536)), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New()
			for _, state := range []any{p.Prepare(nil, c.pod), nil} {
				v := p.Filter(&sdk.Request{Pod: c.pod, Node: &sdk.Node{Pods: busy}, State: state})
				if v.Fit() != c.fit {
					t.Errorf("state %v: fit %v, want %v", state, v.Fit(), c.fit)
				}
				if !c.fit && v.Reasons[0] != "node(s) didn't have free ports for the requested pod ports" {
					t.Errorf("reasons %q", v.Reasons)
				}
			}
		})
	}
}
