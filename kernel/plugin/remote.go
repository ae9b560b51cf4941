package plugin

import (
	"context"
	"fmt"
	"sync"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/sdk"
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

// guest returns the guest, and whether it is another than the last time.
func (r *remote) guest() (guest.Connected, bool, error) {
	u, _ := holder(r.host.present().units, r.name, r.kind)
	if u == nil {
		return nil, false, fmt.Errorf("%s %s %w: its bundle is not loaded", r.kind, r.name, guest.ErrUnavailable)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	p, ok := u.guest.(guest.Connected)
	if !ok {
		return nil, false, fmt.Errorf("%s %s %w", r.kind, r.name, guest.ErrUnavailable)
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
		r.client = runtime.NewClient(p.Connection(), r.name)
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
