package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"pintle.dev/pintle/kernel/plugin/apiservices"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/reasons"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// serve makes each process run the API servers that it shall, and tells the registry of
// them. It belongs to the publishing goroutine.
func (h *Host) serve(ctx context.Context, p *plan) error {
	var faults []error
	var used []string
	for _, u := range p.units {
		var wanted []*manifest.Entry
		has := false
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			if e.Kind != sdk.KindAPIServer {
				continue
			}
			has = true
			if u.active && p.inUse(e) {
				wanted, used = append(wanted, e), append(used, e.Name)
			}
		}
		if has && u.active {
			err := h.serveUnit(ctx, u, wanted)
			if err != nil && u.rests.Load() {
				continue // it fell asleep while it was asked; its end has the next round
			}
			if err != nil {
				faults = append(faults, err)
				for _, e := range wanted {
					h.servers.Down(e.Name, err)
				}
			}
		}
	}
	h.servers.Keep(used)
	return errors.Join(faults...)
}

func (h *Host) serveUnit(ctx context.Context, u *unit, wanted []*manifest.Entry) error {
	// A guest that rests is gone behind that; one that woke up is there before.
	rests := u.rests.Load()
	u.mu.Lock()
	g, _ := u.guest.(guest.APIServing)
	u.mu.Unlock()
	if g == nil && (rests || u.rests.Load()) {
		for _, e := range wanted {
			if !h.servers.Resting(e.Name) { // it is in use since
				u.rouse()
			}
		}
		return nil
	}
	if g == nil { // its return pokes
		for _, e := range wanted {
			h.servers.Down(e.Name, u.unavailable())
		}
		return nil
	}
	if h.deps.Identity == nil {
		return fmt.Errorf("plugin bundle %s: API servers need the API, which this kernel does not serve", u.bundle.Manifest.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, u.start)
	defer cancel()
	req := &contractv1.APIServerStart{}
	for _, e := range wanted {
		socket, err := h.identity(ctx, u, e.Name)
		if err != nil {
			return fmt.Errorf("plugin %s: identity: %w", e.Name, err)
		}
		spec := &contractv1.APIServerSpec{Name: e.Name, Socket: socket, KernelUid: uint32(os.Geteuid())}
		for _, gv := range e.GroupVersions {
			spec.GroupVersions = append(spec.GroupVersions, &contractv1.APIGroupVersion{Group: gv.Group, Version: gv.Version})
		}
		req.Servers = append(req.Servers, spec)
	}
	// Asked again each round: what runs as it shall is left alone.
	resp, err := g.StartAPIServers(ctx, req)
	if err != nil {
		return fmt.Errorf("plugin bundle %s: start API servers: %s", u.bundle.Manifest.Name, reasons.Text(err.Error()))
	}
	for _, e := range wanted {
		h.served(u, g, e, resp)
	}
	return nil
}

// served tells the registry what a process answered of one of its API servers.
func (h *Host) served(u *unit, g guest.APIServing, e *manifest.Entry, resp *contractv1.APIServerStarted) {
	for _, s := range resp.GetServers() {
		if s.GetName() != e.Name {
			continue
		}
		socket := s.GetSocket()
		if socket == "" {
			h.servers.Down(e.Name, fmt.Errorf("it does not listen: %s", reasons.Text(s.GetMessage())))
			return
		}
		versions := make([]schema.GroupVersion, 0, len(e.GroupVersions))
		for _, gv := range e.GroupVersions {
			versions = append(versions, gv.GroupVersion())
		}
		h.servers.Up(e.Name, servingProcess{u, g, socket}, versions, func(ctx context.Context) (net.Conn, error) { return g.DialSocket(ctx, socket) })
		return
	}
	h.servers.Down(e.Name, errors.New("its process does not say where it listens"))
}

// servingProcess is what an API server runs in.
type servingProcess struct {
	unit   *unit
	guest  guest.APIServing
	socket string
}

// writeAPIServices writes the APIServices of what API servers in use serve, and notes
// what keeps them from it.
func (h *Host) writeAPIServices(ctx context.Context, api *publisher, p *plan) error {
	var wanted []apiservices.Wanted
	for _, u := range p.units {
		for i := range u.bundle.Manifest.Plugins {
			e := &u.bundle.Manifest.Plugins[i]
			if e.Kind != sdk.KindAPIServer || !u.active || !p.inUse(e) {
				continue
			}
			for _, gv := range e.GroupVersions {
				wanted = append(wanted, apiservices.Wanted{Plugin: e.Name, GroupVersion: gv, Fault: h.servers.Fault(e.Name, gv.GroupVersion())})
			}
		}
	}
	refused, err := api.served.Write(ctx, wanted)
	for _, u := range p.units {
		serving := map[string]string{}
		for _, each := range wanted {
			if u.entry(each.Plugin) == nil || serving[each.Plugin] != "" {
				continue
			}
			if why := refused[each.Plugin]; len(why) > 0 {
				serving[each.Plugin] = "refused: " + strings.Join(why, "; ")
			} else if each.Fault != nil {
				serving[each.Plugin] = each.Fault.Error()
			}
		}
		u.stateMu.Lock()
		u.serving = serving
		u.stateMu.Unlock()
	}
	return err
}

// servesGroup reports whether the kernel serves a version of a group itself.
func (h *Host) servesGroup(group string) bool {
	return h.deps.ServesGroup != nil && h.deps.ServesGroup(group)
}
