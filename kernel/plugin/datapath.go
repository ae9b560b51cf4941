package plugin

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/proxy"
)

// Proxy returns the proxy plugin of that name. Calls while its process is down
// fail with ErrUnavailable; after a restart of the process Start is repeated
// and Apply asks for a diff with Reset set by proxy.ErrReset.
func (h *Host) Proxy(name string) (proxy.Proxy, error) {
	if err := h.holds(name, sdk.KindProxy); err != nil {
		return nil, err
	}
	return startedProxy{&proxyHandle{remote: remote{host: h, name: name, kind: sdk.KindProxy}, of: proxyKind}}, nil
}

// Network returns the network plugin of that name. Calls while its process is down fail with
// ErrUnavailable; after a restart of the process Start is repeated and Apply asks for a diff
// with Reset set by network.ErrReset.
func (h *Host) Network(name string) (network.Network, error) {
	if err := h.holds(name, sdk.KindNetwork); err != nil {
		return nil, err
	}
	return &networkHandle{remote: remote{host: h, name: name, kind: sdk.KindNetwork}, of: networkKind}, nil
}

// dataPath is what a proxy and a network have in common: they are probed, fed by diffs, and say how they
// are. D is a diff, S a status.
type dataPath[D, S any] interface {
	Probe(ctx context.Context, config []byte) error
	Apply(ctx context.Context, diff D) error
	Status() S
	Stop(ctx context.Context, cleanup bool) error
}

// pathKind is what differs between the kinds of data paths. C is the client, O the options of a start and
// A its answer.
type pathKind[C, O, A, S any] struct {
	newClient func(conn grpc.ClientConnInterface, name string) C
	// start calls the client; the options get the name and the socket to the API.
	start func(ctx context.Context, client C, o O, name, socket string) (A, error)
	// errReset asks for a diff with Reset set, notStarted is the status before a start.
	errReset   error
	notStarted S
}

// pathHandle is a data path that is started again when its process is another one.
type pathHandle[D interface{ GetReset_() bool }, S any, C dataPath[D, S], O, A any] struct {
	mu sync.Mutex
	remote
	of      pathKind[C, O, A, S]
	client  *C // nil: none yet
	options *O
	behind  bool // it knows nothing until a diff with Reset set
}

type (
	proxyHandle   = pathHandle[*proxy.Diff, proxy.Status, proxy.Proxy, proxy.Options, struct{}]
	networkHandle = pathHandle[*network.Diff, network.Status, network.Network, network.Options, network.Pods]
)

var _ network.Network = (*networkHandle)(nil)

var proxyKind = pathKind[proxy.Proxy, proxy.Options, struct{}, proxy.Status]{
	newClient: proxy.NewClient,
	start: func(ctx context.Context, client proxy.Proxy, o proxy.Options, name, socket string) (struct{}, error) {
		o.Name, o.APISocket = name, socket
		return struct{}{}, client.Start(ctx, o)
	},
	errReset:   proxy.ErrReset,
	notStarted: proxy.Status{Message: proxy.ErrNotStarted.Error()},
}

var networkKind = pathKind[network.Network, network.Options, network.Pods, network.Status]{
	newClient: network.NewClient,
	start: func(ctx context.Context, client network.Network, o network.Options, name, socket string) (network.Pods, error) {
		o.Name, o.APISocket = name, socket
		return client.Start(ctx, o)
	},
	errReset:   network.ErrReset,
	notStarted: network.Status{Message: network.ErrNotStarted.Error()},
}

// startedProxy is a proxy's handle: its start answers nothing but an error.
type startedProxy struct{ *proxyHandle }

var _ proxy.Proxy = startedProxy{}

func (x startedProxy) Start(ctx context.Context, o proxy.Options) error {
	_, err := x.proxyHandle.Start(ctx, o)
	return err
}

// present returns the client, started as before if the process is a new one.
func (x *pathHandle[D, S, C, O, A]) present(ctx context.Context) (C, error) {
	var none C
	p, other, err := x.guest()
	if err != nil {
		return none, err
	}
	if other || x.client == nil {
		client := x.of.newClient(p.Connection(), x.name)
		x.client, x.behind = &client, true
		if x.options != nil {
			if _, err := x.start(ctx, *x.options); err != nil {
				x.client = nil
				return none, fmt.Errorf("%s %s: start again: %w", x.kind, x.name, err)
			}
		}
	}
	return *x.client, nil
}

func (x *pathHandle[D, S, C, O, A]) Probe(ctx context.Context, config []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	return c.Probe(ctx, config)
}

func (x *pathHandle[D, S, C, O, A]) Start(ctx context.Context, o O) (A, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.options = nil
	var none A
	if _, err := x.present(ctx); err != nil {
		return none, err
	}
	answer, err := x.start(ctx, o)
	if err != nil {
		return answer, err
	}
	x.options, x.behind = &o, true
	return answer, nil
}

// start names the plugin, and the socket by which it has the API.
func (x *pathHandle[D, S, C, O, A]) start(ctx context.Context, o O) (A, error) {
	socket := x.unit.socket(x.name)
	if e := x.unit.entry(x.name); e != nil && len(e.Rules) > 0 && socket == "" {
		var none A
		return none, fmt.Errorf("%s %s %w: its socket to the API is not open yet", x.kind, x.name, guest.ErrUnavailable)
	}
	return x.of.start(ctx, *x.client, o, x.name, socket)
}

func (x *pathHandle[D, S, C, O, A]) Apply(ctx context.Context, diff D) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	if x.behind && !diff.GetReset_() {
		return x.of.errReset
	}
	if err := c.Apply(ctx, diff); err != nil {
		return err
	}
	x.behind = false
	return nil
}

func (x *pathHandle[D, S, C, O, A]) Status() S {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.client == nil {
		return x.of.notStarted
	}
	return (*x.client).Status()
}

func (x *pathHandle[D, S, C, O, A]) Stop(ctx context.Context, cleanup bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	c, err := x.present(ctx)
	if err != nil {
		return err
	}
	x.options = nil
	return c.Stop(ctx, cleanup)
}
