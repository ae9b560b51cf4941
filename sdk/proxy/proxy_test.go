package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// fake keeps what it was told.
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
func (f *fake) Start(_ context.Context, o Options) error { f.options = o; f.starts++; return nil }
func (f *fake) Apply(_ context.Context, d *Diff) error   { f.state.Apply(d); return f.fail }
func (f *fake) Status() Status {
	return Status{Ready: true, Generation: f.state.Generation, Services: len(f.state.Services), Serves: []*ServedPort{{Name: "dns", Protocol: "UDP", Address: "10.0.0.1", Port: 10053}}}
}
func (f *fake) Stop(_ context.Context, cleanup bool) error { f.stopped = &cleanup; return f.hang }

// Every call reaches the plugin through client and server as it was made.
func TestClientAndServer(t *testing.T) {
	f := &fake{}
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	ServiceOf(map[string]Proxy{"p": f}).RegisterWith(server)
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p, ctx := NewClient(conn, "p"), t.Context()
	if err := p.Probe(ctx, []byte("no")); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "needs root") {
		t.Errorf("probe: %v", err)
	}
	if err := p.Probe(ctx, nil); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := p.Apply(ctx, &Diff{Reset_: true}); err == nil || !strings.Contains(err.Error(), ErrNotStarted.Error()) {
		t.Errorf("apply before start: %v", err)
	}
	if err := p.Start(ctx, Options{NodeName: "n", NodeIPs: []string{"10.0.0.1"}, Zone: "z", APISocket: "/s", ClusterDomain: "d"}); err != nil {
		t.Fatal(err)
	}
	if f.options.NodeName != "n" || f.options.NodeIPs[0] != "10.0.0.1" || f.options.Zone != "z" || f.options.APISocket != "/s" || f.options.ClusterDomain != "d" || f.options.Logger == nil {
		t.Errorf("options %+v", f.options)
	}
	name := &ServiceName{Namespace: "d", Name: "s"}
	port := &ServicePort{Name: "http", Protocol: "TCP", Port: 80}
	if err := p.Apply(ctx, &Diff{Generation: 1, Reset_: true, Changes: []*Change{
		{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: &Service{Name: name, Ports: []*ServicePort{port}}}},
		{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &ServiceEndpoints{Name: name, Ports: []*PortEndpoints{
			{PortName: "http", Protocol: "TCP", Endpoints: []*Endpoint{{Ip: "10.1.0.2", Port: 8080, Ready: true}}},
		}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	if got := f.state.Of(NameOf(name), port); len(got) != 1 || got[0].GetIp() != "10.1.0.2" {
		t.Errorf("endpoints %v", got)
	}
	if s := p.Status(); !s.Ready || s.Generation != 1 || s.Services != 1 || len(s.Serves) != 1 || s.Serves[0].GetPort() != 10053 || s.Serves[0].GetAddress() != "10.0.0.1" {
		t.Errorf("status %+v", s)
	}
	f.fail = errors.New("restore failed")
	if err := p.Apply(ctx, &Diff{Generation: 2}); err == nil || err.Error() != "restore failed" {
		t.Errorf("apply: %v", err)
	}
	f.fail = nil
	if err := p.Apply(ctx, &Diff{Generation: 3, Changes: []*Change{{Change: &contractv1.ProxyChange_ServiceRemove{ServiceRemove: name}}}}); err != nil || len(f.state.Services) != 0 {
		t.Errorf("remove: %v, %v", err, f.state.Services)
	}
	if err := NewClient(conn, "other").Start(ctx, Options{}); err == nil || !strings.Contains(err.Error(), ErrUnknown.Error()) {
		t.Errorf("unknown proxy: %v", err)
	}
	if err := p.Stop(ctx, true); err != nil || f.stopped == nil || !*f.stopped {
		t.Errorf("stop: %v, cleanup %v", err, f.stopped)
	}
	// A start finishes a stop that failed, before it starts.
	if err := p.Start(ctx, Options{}); err != nil {
		t.Fatal(err)
	}
	f.hang = errors.New("it hangs")
	if err := p.Stop(ctx, true); err == nil || !strings.Contains(err.Error(), "it hangs") {
		t.Errorf("a stop that fails: %v", err)
	}
	if err := p.Start(ctx, Options{}); err == nil || !strings.Contains(err.Error(), "it hangs") || f.starts != 2 {
		t.Errorf("a start while a stop hangs: %v, started %d times", err, f.starts)
	}
	f.hang = nil
	if err := p.Start(ctx, Options{}); err != nil || f.starts != 3 {
		t.Errorf("a start after a stop that failed: %v, started %d times, want 3", err, f.starts)
	}
}
