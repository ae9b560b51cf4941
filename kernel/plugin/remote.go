package plugin

import (
	"context"
	"fmt"
	"sync"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/proxy"
	"pintle.dev/pintle/sdk/runtime"
)

// Runtime returns the runtime plugin of that name. Calls while its process is
// down fail with ErrUnavailable; after a restart of the process Start is
// repeated before the next call. ArtifactDirectory is filled in.
func (h *Host) Runtime(name string) (runtime.Runtime, error) {
	if err := h.holds(name, sdk.KindRuntime); err != nil {
		return nil, err
	}
	return &runtimeHandle{remote: remote{host: h, name: name, kind: sdk.KindRuntime}}, nil
}

// Proxy returns the proxy plugin of that name. Calls while its process is down
// fail with ErrUnavailable; after a restart of the process Start is repeated
// and Apply asks for a diff with Reset set by proxy.ErrReset.
func (h *Host) Proxy(name string) (proxy.Proxy, error) {
	if err := h.holds(name, sdk.KindProxy); err != nil {
		return nil, err
	}
	return &proxyHandle{remote: remote{host: h, name: name, kind: sdk.KindProxy}}, nil
}

// Network returns the network plugin of that name. Calls while its process is down fail with
// ErrUnavailable; after a restart of the process Start is repeated and Apply asks for a diff
// with Reset set by network.ErrReset.
func (h *Host) Network(name string) (network.Network, error) {
	if err := h.holds(name, sdk.KindNetwork); err != nil {
		return nil, err
	}
	return &networkHandle{remote: remote{host: h, name: name, kind: sdk.KindNetwork}}, nil
}

func (h *Host) holds(name, kind string) error {
	return known(h.present().units, name, kind, "node")
}

// remote finds the process that holds a plugin now.
type remote struct {
	host *Host
	name string
	kind string

	unit    *unit
	started uint64
}

// guest returns the process, and whether it is another than the last time.
func (r *remote) guest() (*processGuest, bool, error) {
	u, _ := holder(r.host.present().units, r.name, r.kind)
	if u == nil {
		return nil, false, fmt.Errorf("%s %s %w: its bundle is not loaded", r.kind, r.name, ErrUnavailable)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	p, ok := u.guest.(*processGuest)
	if !ok {
		return nil, false, fmt.Errorf("%s %s %w", r.kind, r.name, ErrUnavailable)
	}
	other := r.unit != u || r.started != u.started
	r.unit, r.started = u, u.started
	return p, other, nil
}

type runtimeHandle struct {
	mu sync.Mutex
	remote
	client  runtime.Runtime
	options *runtime.Options
}

var _ runtime.Runtime = (*runtimeHandle)(nil)

// present returns the client, started as before if the process is a new one.
func (r *runtimeHandle) present(ctx context.Context) (runtime.Runtime, error) {
	p, other, err := r.guest()
	if err != nil {
		return nil, err
	}
	if other || r.client == nil {
		r.client = runtime.NewClient(p.conn, r.name)
		if r.options != nil {
			if _, err := r.client.Start(ctx, *r.options); err != nil {
				r.client = nil
				return nil, fmt.Errorf("runtime %s: start again: %w", r.name, err)
			}
		}
	}
	return r.client, nil
}

func (r *runtimeHandle) Start(ctx context.Context, o runtime.Options) (runtime.Endpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.options = nil
	c, err := r.present(ctx)
	if err != nil {
		return runtime.Endpoint{}, err
	}
	o.Name, o.ArtifactDirectory = r.name, r.unit.path()
	endpoint, err := c.Start(ctx, o)
	if err == nil {
		r.options = &o
	}
	return endpoint, err
}

func (r *runtimeHandle) Status(ctx context.Context) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.present(ctx)
	if err != nil {
		return 0, err
	}
	return c.Status(ctx)
}

func (r *runtimeHandle) Stop(ctx context.Context, keepContainers bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.present(ctx)
	if err != nil {
		return err
	}
	r.options = nil
	return c.Stop(ctx, keepContainers)
}

type proxyHandle struct {
	mu sync.Mutex
	remote
	client  proxy.Proxy
	options *proxy.Options
	behind  bool
}

var _ proxy.Proxy = (*proxyHandle)(nil)

func (x *proxyHandle) present(ctx context.Context) (proxy.Proxy, error) {
	p, other, err := x.guest()
	if err != nil {
		return nil, err
	}
	if other || x.client == nil {
		x.client, x.behind = proxy.NewClient(p.conn, x.name), true
		if x.options != nil {
			if err := x.start(ctx, *x.options); err != nil {
				x.client = nil
				return nil, fmt.Errorf("proxy %s: start again: %w", x.name, err)
			}
		}
	}
	return x.client, nil
}

func (x *proxyHandle) Probe(ctx context.Context, config []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	return c.Probe(ctx, config)
}

func (x *proxyHandle) Start(ctx context.Context, o proxy.Options) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.options = nil
	if _, err := x.present(ctx); err != nil {
		return err
	}
	o.Name = x.name
	if err := x.start(ctx, o); err != nil {
		return err
	}
	x.options, x.behind = &o, true
	return nil
}

// start tells the proxy by which socket it has the API, too.
func (x *proxyHandle) start(ctx context.Context, o proxy.Options) error {
	o.APISocket = x.unit.socket(x.name)
	if e := x.unit.entry(x.name); e != nil && len(e.Rules) > 0 && o.APISocket == "" {
		return fmt.Errorf("proxy %s %w: its socket to the API is not open yet", x.name, ErrUnavailable)
	}
	return x.client.Start(ctx, o)
}

func (x *proxyHandle) Apply(ctx context.Context, diff *proxy.Diff) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	if x.behind && !diff.GetReset_() {
		return proxy.ErrReset
	}
	if err := c.Apply(ctx, diff); err != nil {
		return err
	}
	x.behind = false
	return nil
}

func (x *proxyHandle) Status() proxy.Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == nil {
		return proxy.Status{Message: proxy.ErrNotStarted.Error()}
	}
	return x.client.Status()
}

func (x *proxyHandle) Stop(ctx context.Context, cleanup bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	x.options = nil
	return c.Stop(ctx, cleanup)
}

type networkHandle struct {
	mu sync.Mutex
	remote
	client  network.Network
	options *network.Options
	behind  bool
}

var _ network.Network = (*networkHandle)(nil)

func (x *networkHandle) present(ctx context.Context) (network.Network, error) {
	p, other, err := x.guest()
	if err != nil {
		return nil, err
	}
	if other || x.client == nil {
		x.client, x.behind = network.NewClient(p.conn, x.name), true
		if x.options != nil {
			if _, err := x.start(ctx, *x.options); err != nil {
				x.client = nil
				return nil, fmt.Errorf("network %s: start again: %w", x.name, err)
			}
		}
	}
	return x.client, nil
}

func (x *networkHandle) Probe(ctx context.Context, config []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	return c.Probe(ctx, config)
}

func (x *networkHandle) Start(ctx context.Context, o network.Options) (network.Pods, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.options = nil
	if _, err := x.present(ctx); err != nil {
		return network.Pods{}, err
	}
	o.Name = x.name
	pods, err := x.start(ctx, o)
	if err != nil {
		return pods, err
	}
	x.options, x.behind = &o, true
	return pods, nil
}

// start tells the network by which socket it has the API, too.
func (x *networkHandle) start(ctx context.Context, o network.Options) (network.Pods, error) {
	o.APISocket = x.unit.socket(x.name)
	if e := x.unit.entry(x.name); e != nil && len(e.Rules) > 0 && o.APISocket == "" {
		return network.Pods{}, fmt.Errorf("network %s %w: its socket to the API is not open yet", x.name, ErrUnavailable)
	}
	return x.client.Start(ctx, o)
}

func (x *networkHandle) Apply(ctx context.Context, diff *network.Diff) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	if x.behind && !diff.GetReset_() {
		return network.ErrReset
	}
	if err := c.Apply(ctx, diff); err != nil {
		return err
	}
	x.behind = false
	return nil
}

func (x *networkHandle) Status() network.Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == nil {
		return network.Status{Message: network.ErrNotStarted.Error()}
	}
	return x.client.Status()
}

func (x *networkHandle) Stop(ctx context.Context, cleanup bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	x.options = nil
	return c.Stop(ctx, cleanup)
}
