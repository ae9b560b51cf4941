package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/proxy"
	"pintle.dev/pintle/sdk/transport"
)

// pathCalls are what a plugin of a test was asked.
type pathCalls struct {
	mu   sync.Mutex
	list []string
}

func (c *pathCalls) add(format string, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, fmt.Sprintf(format, args...))
	return nil
}

func (c *pathCalls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.list
	c.list = nil
	return out
}

type pathProxy struct{ *pathCalls }

func (p pathProxy) Probe(context.Context, []byte) error { return p.add("probe") }
func (p pathProxy) Start(_ context.Context, o proxy.Options) error {
	return p.add("start %s for %s by %q", o.Name, o.NodeName, o.APISocket)
}
func (p pathProxy) Apply(_ context.Context, d *proxy.Diff) error {
	return p.add("apply %t", d.GetReset_())
}
func (p pathProxy) Status() proxy.Status                       { return proxy.Status{Message: "from the plugin"} }
func (p pathProxy) Stop(_ context.Context, cleanup bool) error { return p.add("stop %t", cleanup) }

type pathNetwork struct{ *pathCalls }

func (p pathNetwork) Probe(context.Context, []byte) error { return p.add("probe") }
func (p pathNetwork) Start(_ context.Context, o network.Options) (network.Pods, error) {
	return network.Pods{MTU: 1450}, p.add("start %s for %s by %q", o.Name, o.NodeName, o.APISocket)
}
func (p pathNetwork) Apply(_ context.Context, d *network.Diff) error {
	return p.add("apply %t", d.GetReset_())
}
func (p pathNetwork) Status() network.Status                     { return network.Status{Message: "from the plugin"} }
func (p pathNetwork) Stop(_ context.Context, cleanup bool) error { return p.add("stop %t", cleanup) }

// pathGuest is a guest that is reached by gRPC and can nothing else.
type pathGuest struct {
	guest.Guest
	conn *grpc.ClientConn
}

func (g pathGuest) Connection() *grpc.ClientConn { return g.conn }

// pathProcess is a new process of a bundle, without a process.
func pathProcess(t *testing.T, service transport.Service) guest.Guest {
	t.Helper()
	listener, server := bufconn.Listen(1<<16), grpc.NewServer()
	service.RegisterWith(server)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop(); <-ended })
	return pathGuest{conn: conn}
}

// TestDataPaths: a proxy and a network are started anew with their process, and then want each
// diff with Reset set. One with rules does not start before its socket to the API is open.
func TestDataPaths(t *testing.T) {
	type path struct {
		start  func(ctx context.Context) error
		probe  func(ctx context.Context) error
		apply  func(ctx context.Context, reset bool) error
		status func() string
		stop   func(ctx context.Context) error
	}
	for kind, tt := range map[string]struct {
		service  func(*pathCalls) transport.Service
		of       func(h *Host) (path, error)
		errReset error
		idle     string
	}{
		sdk.KindProxy: {
			service: func(c *pathCalls) transport.Service {
				return proxy.ServiceOf(map[string]proxy.Proxy{"x": pathProxy{c}})
			},
			of: func(h *Host) (path, error) {
				p, err := h.Proxy("x")
				return path{
					start:  func(ctx context.Context) error { return p.Start(ctx, proxy.Options{NodeName: "n"}) },
					probe:  func(ctx context.Context) error { return p.Probe(ctx, nil) },
					apply:  func(ctx context.Context, reset bool) error { return p.Apply(ctx, &proxy.Diff{Reset_: reset}) },
					status: func() string { return p.Status().Message },
					stop:   func(ctx context.Context) error { return p.Stop(ctx, true) },
				}, err
			},
			errReset: proxy.ErrReset, idle: proxy.ErrNotStarted.Error(),
		},
		sdk.KindNetwork: {
			service: func(c *pathCalls) transport.Service {
				return network.ServiceOf(map[string]network.Network{"x": pathNetwork{c}})
			},
			of: func(h *Host) (path, error) {
				n, err := h.Network("x")
				return path{
					start: func(ctx context.Context) error {
						pods, err := n.Start(ctx, network.Options{NodeName: "n"})
						if err == nil && pods.MTU != 1450 {
							err = fmt.Errorf("MTU %d", pods.MTU)
						}
						return err
					},
					probe:  func(ctx context.Context) error { return n.Probe(ctx, nil) },
					apply:  func(ctx context.Context, reset bool) error { return n.Apply(ctx, &network.Diff{Reset_: reset}) },
					status: func() string { return n.Status().Message },
					stop:   func(ctx context.Context) error { return n.Stop(ctx, true) },
				}, err
			},
			errReset: network.ErrReset, idle: network.ErrNotStarted.Error(),
		},
	} {
		t.Run(kind, func(t *testing.T) {
			ctx, calls := t.Context(), &pathCalls{}
			u := &unit{bundle: &manifest.Bundle{Manifest: &manifest.Manifest{Plugins: []manifest.Entry{{Name: "x", Kind: kind, Rules: []manifest.Rule{{}}}}}}}
			h := &Host{plan: &plan{units: []*unit{u}}}
			p, err := tt.of(h)
			if err != nil {
				t.Fatal(err)
			}
			expect := func(when string, err, want error, asked ...string) {
				t.Helper()
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%s: %v, want %v", when, err, want)
				}
				if got := calls.take(); !slices.Equal(got, asked) {
					t.Errorf("%s: the plugin was asked %q, want %q", when, got, asked)
				}
			}
			expect("without a process", p.probe(ctx), guest.ErrUnavailable)
			if got := p.status(); got != tt.idle {
				t.Errorf("status before a start: %q", got)
			}
			u.guest, u.started = pathProcess(t, tt.service(calls)), 1
			expect("a probe", p.probe(ctx), nil, "probe")
			expect("without a socket", p.start(ctx), guest.ErrUnavailable)
			u.sockets = map[string]string{"x": "/s1"}
			expect("a start", p.start(ctx), nil, `start x for n by "/s1"`)
			expect("a diff too early", p.apply(ctx, false), tt.errReset)
			expect("everything", p.apply(ctx, true), nil, "apply true")
			expect("a diff", p.apply(ctx, false), nil, "apply false")
			if got := p.status(); got != "from the plugin" {
				t.Errorf("status %q", got)
			}
			u.guest, u.started = pathProcess(t, tt.service(calls)), 2
			u.sockets = map[string]string{"x": "/s2"}
			expect("another process", p.apply(ctx, false), tt.errReset, `start x for n by "/s2"`)
			expect("everything again", p.apply(ctx, true), nil, "apply true")
			expect("a stop", p.stop(ctx), nil, "stop true")
			u.guest, u.started = pathProcess(t, tt.service(calls)), 3
			expect("a process after the stop", p.probe(ctx), nil, "probe")
		})
	}
}
