package network

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// fake records its calls.
type fake struct {
	state   State
	options Options
	stopped *bool
	fail    error
	hang    error // of stops
	starts  int
}

func (f *fake) Probe(_ context.Context, config []byte) error {
	if string(config) == "no" {
		return errors.New("needs root")
	}
	return nil
}

func (f *fake) Start(_ context.Context, o Options) (Pods, error) {
	f.options = o
	f.starts++
	return Pods{MTU: 1450, CNIConfigurations: "/etc/cni", CNIPlugins: "/opt/cni", PublicKey: "key"}, f.fail
}
func (f *fake) Apply(_ context.Context, d *Diff) error { f.state.Apply(d); return f.fail }
func (f *fake) Status() Status {
	return Status{Ready: true, Message: "m", Generation: f.state.Generation, Refused: []*Refusal{{Node: "thief", Reason: "not its own"}}}
}
func (f *fake) Stop(_ context.Context, cleanup bool) error { f.stopped = &cleanup; return f.hang }

// connected is a client of the networks, over the wire contract.
func connected(t *testing.T, name string, networks map[string]Network) Network {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	ServiceOf(networks).RegisterWith(server)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return NewClient(conn, name)
}

// Every call reaches the plugin through client and server as it was made.
func TestClientAndServer(t *testing.T) {
	f := &fake{}
	n, ctx := connected(t, "n", map[string]Network{"n": f}), t.Context()
	if err := n.Probe(ctx, []byte("no")); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "needs root") {
		t.Errorf("probe: %v", err)
	}
	if err := n.Probe(ctx, nil); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := n.Apply(ctx, &Diff{Reset_: true}); err == nil || !strings.Contains(err.Error(), ErrNotStarted.Error()) {
		t.Errorf("apply before start: %v", err)
	}
	f.fail = errors.New("a range collides")
	if _, err := n.Start(ctx, Options{}); err == nil || !strings.Contains(err.Error(), "a range collides") {
		t.Errorf("a start that fails: %v", err)
	}
	f.fail = nil
	o := Options{NodeName: "a", NodeIPs: []string{"192.0.2.1"}, PodCIDRs: []string{"10.0.1.0/24"}, ClusterCIDRs: []string{"10.0.0.0/16"}, ServiceCIDRs: []string{"10.96.0.0/16"}, StateDirectory: "/s", APISocket: "/api"}
	want := Pods{MTU: 1450, CNIConfigurations: "/etc/cni", CNIPlugins: "/opt/cni", PublicKey: "key"}
	for range 2 { // the second start finds it started, and answers the same
		if pods, err := n.Start(ctx, o); err != nil || pods != want {
			t.Errorf("start: %+v, %v", pods, err)
		}
	}
	if got := f.options; f.starts != 2 || got.NodeName != "a" || got.NodeIPs[0] != "192.0.2.1" || got.PodCIDRs[0] != "10.0.1.0/24" || got.ClusterCIDRs[0] != "10.0.0.0/16" ||
		got.ServiceCIDRs[0] != "10.96.0.0/16" || got.StateDirectory != "/s" || got.APISocket != "/api" || got.Logger == nil {
		t.Errorf("%d starts, options %+v", f.starts, got)
	}
	if err := n.Apply(ctx, &Diff{Generation: 7, Reset_: true, Set: []*Node{{Name: "b", Addresses: []string{"192.0.2.2"}, PodCidrs: []string{"10.0.2.0/24"}}}}); err != nil {
		t.Fatal(err)
	}
	if nodes := f.state.Nodes(); len(nodes) != 1 || nodes[0].GetAddresses()[0] != "192.0.2.2" || nodes[0].GetPodCidrs()[0] != "10.0.2.0/24" {
		t.Errorf("nodes %v", nodes)
	}
	if s := n.Status(); !s.Ready || s.Message != "m" || s.Generation != 7 || len(s.Refused) != 1 || s.Refused[0].GetNode() != "thief" || s.Refused[0].GetReason() != "not its own" {
		t.Errorf("status %+v", s)
	}
	f.fail = errors.New("no route to host")
	if err := n.Apply(ctx, &Diff{Generation: 8}); err == nil || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("apply: %v", err)
	}
	f.fail = nil
	if _, err := connected(t, "other", map[string]Network{"n": f}).Start(ctx, Options{}); err == nil || !strings.Contains(err.Error(), ErrUnknown.Error()) {
		t.Errorf("unknown network: %v", err)
	}
	if err := n.Stop(ctx, true); err != nil || f.stopped == nil || !*f.stopped {
		t.Errorf("stop: %v, cleanup %v", err, f.stopped)
	}
	// A stop with cleanup reaches a network that is not started: it removes what an earlier run left.
	for _, cleanup := range []bool{false, true} {
		f.stopped = nil
		if err := n.Stop(ctx, cleanup); err != nil || (f.stopped != nil) != cleanup {
			t.Errorf("a stop of what is not started, cleanup %t: %v, it reached the network: %t", cleanup, err, f.stopped != nil)
		}
	}
	// A start finishes a stop that failed, before it starts.
	if _, err := n.Start(ctx, o); err != nil {
		t.Fatal(err)
	}
	f.hang = errors.New("it hangs")
	if err := n.Stop(ctx, true); err == nil || !strings.Contains(err.Error(), "it hangs") {
		t.Errorf("a stop that fails: %v", err)
	}
	if _, err := n.Start(ctx, o); err == nil || !strings.Contains(err.Error(), "it hangs") || f.starts != 3 {
		t.Errorf("a start while a stop hangs: %v, started %d times", err, f.starts)
	}
	f.hang = nil
	if _, err := n.Start(ctx, o); err != nil || f.starts != 4 {
		t.Errorf("a start after a stop that failed: %v, started %d times, want 4", err, f.starts)
	}
}

// TestState: diffs add up, and of nodes the one that registered first comes first.
func TestState(t *testing.T) {
	var s State
	s.Apply(&Diff{Generation: 1, Set: []*Node{{Name: "late", Created: 9}, {Name: "b", Created: 5}, {Name: "a", Created: 5}, {Name: "early", Created: 1}}})
	names := func() (out []string) {
		for _, n := range s.Nodes() {
			out = append(out, n.GetName())
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"early", "a", "b", "late"}) {
		t.Errorf("%v", got)
	}
	s.Apply(&Diff{Generation: 2, Set: []*Node{{Name: "late", Created: 2}}, Removed: []string{"a", "never"}})
	if got := names(); !slices.Equal(got, []string{"early", "late", "b"}) || s.Generation != 2 {
		t.Errorf("%v", got)
	}
	s.Apply(&Diff{Generation: 3, Reset_: true, Set: []*Node{{Name: "b"}}})
	if got := names(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%v", got)
	}
}
