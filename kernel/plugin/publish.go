package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// publishEvery bounds how old counters in Plugin objects are.
	publishEvery = 10 * time.Second
	// publishPause keeps a bundle that flaps from flooding the API.
	publishPause = time.Second
	// updatePause is between the updates of a round.
	updatePause = 20 * time.Millisecond
	// publishRetry is the wait after the API did not answer.
	publishRetry = 100 * time.Millisecond
	// publishRetryMax bounds the waits, which double.
	publishRetryMax = 5 * time.Second
	// controlFor bounds a round of roles, sockets and controllers, writeRoundFor one
	// of Plugin objects: an API that hangs holds up neither what comes next nor a
	// change of the lead.
	controlFor, writeRoundFor = 15 * time.Second, 15 * time.Second
	// announcers is how many objects are created at the same time.
	announcers = 8
)

// publish is the host's own goroutine after the start: it writes what plugins
// may do, starts and ends controllers, and has Plugin objects written.
func (h *Host) publish(ctx context.Context, api *publisher) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	complained, retry := "", publishRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.poke:
			timer.Reset(0)
			continue
		case <-timer.C:
		}
		err := h.publishOnce(ctx, api)
		if ctx.Err() != nil {
			return
		}
		wait := publishEvery
		if err != nil {
			wait, retry = retry, min(2*retry, publishRetryMax)
			if complained != err.Error() {
				complained = err.Error()
				h.log.Warn("plugins are not published yet and it is tried again", "error", err)
			}
		} else {
			complained, retry = "", publishRetry
			// A pause, so that pokes which come together are one round.
			select {
			case <-ctx.Done():
				return
			case <-h.objects.told: // somebody waits for an answer
				wait = 0
			case <-time.After(publishPause):
			}
		}
		timer.Reset(wait)
	}
}

func (h *Host) publishOnce(ctx context.Context, api *publisher) error {
	ctx, cancel := context.WithTimeout(ctx, controlFor)
	defer cancel()
	h.mu.Lock()
	p, configured, retiring := h.plan, h.configured, slices.Clone(h.retiring)
	h.mu.Unlock()
	permissions := func() error {
		if api == nil {
			return nil
		}
		return api.roles.Write(ctx, p.grants())
	}
	control := func() error {
		err := errors.Join(h.openSockets(ctx, p), h.control(ctx, &p.cfg, p.units, retiring), h.serve(ctx, p))
		if err == nil {
			h.closeSockets(p, retiring)
			h.mu.Lock()
			h.controlled = configured
			close(h.settled)
			h.settled = make(chan struct{})
			h.mu.Unlock()
		}
		return err
	}
	defer signal(h.unwritten)
	if p.cfg.Standby {
		if api != nil {
			api.served.Forget()
		}
		// Controllers end without the API, which may be why they do.
		return errors.Join(control(), permissions())
	}
	if err := permissions(); err != nil {
		return err
	}
	err := control()
	if api != nil {
		err = errors.Join(err, h.writeAPIServices(ctx, api, p))
	}
	if err != nil || api == nil || len(retiring) > 0 {
		return err
	}
	// Nobody who ends needs them any more.
	return api.roles.Withdraw(ctx, p.grants(), p.cfg.Silent)
}

// write keeps Plugin objects current until ctx ends.
func (h *Host) write(ctx context.Context, api *publisher) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	complained, retry := "", publishRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.unwritten:
		case <-timer.C:
		}
		round, cancel := context.WithTimeout(ctx, writeRoundFor)
		err := h.writePlugins(round, api)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			complained, retry = "", publishRetry
			h.announcing.Do(func() { close(h.announced) })
			timer.Reset(publishEvery)
			continue
		}
		if complained != err.Error() {
			complained = err.Error()
			h.log.Warn("plugins are not published yet and it is tried again", "error", err)
		}
		timer.Reset(retry)
		retry = min(2*retry, publishRetryMax)
	}
}

// announce creates the objects that are missing at the start, with their status, several at a time.
// What fails is left to write.
func (h *Host) announce(ctx context.Context, api *publisher) {
	ctx, cancel := context.WithTimeout(ctx, writeRoundFor)
	defer cancel()
	p := h.present()
	var group errgroup.Group
	group.SetLimit(announcers)
	for _, u := range p.units {
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			h.objects.mu.Lock()
			there := h.objects.seen[e.Name] != nil
			h.objects.mu.Unlock()
			if there || slices.Contains(p.cfg.Silent, e.Kind) {
				continue
			}
			group.Go(func() error {
				now, made := p.object(u, e), &v1alpha1.Plugin{}
				err := api.plugin.Post().Resource("plugins").Body(now).Do(ctx).Into(made)
				if apierrors.IsAlreadyExists(err) {
					return nil // another kernel's; the watch brings it
				}
				if err != nil {
					return fmt.Errorf("plugin %s: create: %w", e.Name, err)
				}
				h.objects.mu.Lock()
				defer h.objects.mu.Unlock()
				t := &tracked{known: made, settled: made}
				h.objects.seen[e.Name] = t
				// A create takes no status.
				if err := h.lost(t, h.writeStatus(ctx, api, t, now.Status)); err != nil {
					return fmt.Errorf("plugin %s: %w", e.Name, err)
				}
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() == nil {
			h.log.Warn("plugins are not published yet and it is tried again", "error", err)
		}
		return
	}
	h.announcing.Do(func() { close(h.announced) })
}

// control makes each process run the controllers and the cloud provider that it shall.
// A controller of a bundle that was replaced ends before its successor begins, and so does
// one that a bundle gives up in a change by which another bundle gets one: the two may
// keep the same objects.
func (h *Host) control(ctx context.Context, cfg *Config, units, retiring []*unit) error {
	var faults []error
	wanted := map[*unit][]string{}
	for _, u := range units {
		if !u.active || namesake(retiring, u) != nil {
			continue // its end is told
		}
		names, has := controls(cfg, u, retiring)
		if !has {
			continue
		}
		wanted[u] = names
		left := slices.DeleteFunc(slices.Clone(u.controls), func(name string) bool { return !slices.Contains(names, name) })
		if len(left) == len(u.controls) {
			continue
		}
		if err := h.controlUnit(ctx, cfg, u, left); err != nil {
			faults = append(faults, err)
			delete(wanted, u)
		}
	}
	for _, u := range units {
		names, has := wanted[u]
		if !has {
			continue
		}
		if err := h.controlUnit(ctx, cfg, u, names); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// controls are the controllers and the cloud provider that a unit shall run, and whether
// it has any. One waits until its namesake of a unit that retires has ended.
func controls(cfg *Config, u *unit, retiring []*unit) (names []string, has bool) {
	ending := func(name string) bool {
		return slices.ContainsFunc(retiring, func(o *unit) bool {
			return slices.ContainsFunc(o.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return e.Name == name && sdk.ControllingKind(e.Kind) })
		})
	}
	for _, e := range u.bundle.Manifest.Plugins {
		if !sdk.ControllingKind(e.Kind) {
			continue
		}
		has = true
		named := cfg.Controllers
		if e.Kind == sdk.KindCloud {
			named = cfg.Cloud
		}
		if !cfg.Standby && slices.Contains(named, e.Name) && !ending(e.Name) {
			names = append(names, e.Name)
		}
	}
	return names, has
}

func (h *Host) controlUnit(ctx context.Context, cfg *Config, u *unit, wanted []string) error {
	u.mu.Lock()
	g, started, revision := u.guest, u.started, u.revision
	u.mu.Unlock()
	if g == nil {
		return nil // it is down; its return pokes
	}
	if len(wanted) == 0 && (u.controlled != started || len(u.controls) == 0) {
		// A guest that was told of no controller runs none: it needs no identity.
		u.controlled, u.controlledConfig, u.controls = started, revision, nil
		u.stateMu.Lock()
		u.controllers = nil
		u.stateMu.Unlock()
		return nil
	}
	runner, ok := g.(guest.Controlling)
	if !ok {
		return fmt.Errorf("plugin bundle %s: its build runs no controllers", u.bundle.Manifest.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, u.start)
	defer cancel()
	if u.controlled != started || u.controlledConfig != revision || !slices.Equal(u.controls, wanted) {
		if h.deps.Identity == nil {
			return fmt.Errorf("plugin bundle %s: controllers need the API, which this kernel does not serve", u.bundle.Manifest.Name)
		}
		specs := make([]controller.Spec, 0, len(wanted))
		for _, name := range wanted {
			own, err := h.identity(ctx, u, name)
			if err != nil {
				return fmt.Errorf("plugin %s: identity: %w", name, err)
			}
			specs = append(specs, controller.Spec{Name: name, Socket: own})
		}
		socket := func() (string, error) {
			socket, err := h.identity(ctx, u, u.bundle.Manifest.Name)
			if err != nil {
				return "", fmt.Errorf("plugin bundle %s: identity: %w", u.bundle.Manifest.Name, err)
			}
			return socket, nil
		}
		if err := runner.RunControllers(ctx, socket, cfg.NodeName, specs); err != nil {
			return err
		}
		u.controlled, u.controlledConfig, u.controls = started, revision, wanted
	}
	states, err := runner.ControllerStates(ctx)
	if err != nil {
		return err
	}
	u.stateMu.Lock()
	u.controllers = states
	u.stateMu.Unlock()
	return nil
}
