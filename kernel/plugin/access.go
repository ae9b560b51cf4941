package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
)

// denial is what RBAC forbade a plugin.
type denial struct {
	what  string // the last thing, as "list secrets"
	why   string
	times int64
}

// Whose word keeps a plugin from what it asks for.
const (
	notAskedFor = "which its manifest does not ask for"
	notGranted  = "which the configuration does not grant"
)

func (d denial) String() string {
	return fmt.Sprintf("was forbidden to %s, %s (%d requests so far)", d.what, d.why, d.times)
}

// identity opens the socket by which a plugin of the unit is known to the API. It
// belongs to the publishing goroutine.
func (h *Host) identity(ctx context.Context, u *unit, name string) (string, error) {
	a, err := u.access(name)
	if err != nil {
		return "", err
	}
	if e := u.entry(name); e != nil {
		a.Rules = h.present().left(e, e.Rules, false)
	}
	socket, err := h.deps.Identity(ctx, name, a)
	if err == nil {
		h.opened[name] = true
	}
	return socket, err
}

// closeSockets closes the sockets of plugins that are in use no more, while their
// units may go on.
func (h *Host) closeSockets(p *plan, retiring []*unit) {
	needed := map[string]bool{}
	for _, u := range retiring {
		for _, name := range u.identities() {
			needed[name] = true
		}
	}
	for _, u := range p.units {
		if !u.active {
			continue
		}
		if len(u.controls) > 0 {
			needed[u.bundle.Manifest.Name] = true
		}
		for i := range u.bundle.Manifest.Plugins {
			if e := &u.bundle.Manifest.Plugins[i]; p.inUse(e) {
				needed[e.Name] = true
			}
		}
	}
	for name := range h.opened {
		if needed[name] {
			continue
		}
		delete(h.opened, name)
		for _, u := range p.units {
			u.stateMu.Lock()
			delete(u.sockets, name)
			u.stateMu.Unlock()
		}
		if h.deps.Release != nil {
			h.deps.Release(name)
		}
	}
}

// access is how a plugin of the unit may use the API; name is the bundle's for
// what its plugins share.
func (u *unit) access(name string) (Access, error) {
	a := Access{CallsPerSecond: u.limits.Calls, Denied: func(what string) { u.denied(name, what, notAskedFor) }, Leading: u.leading(name)}
	if u.confined.User > 0 {
		dir, err := u.confined.Folder(u.bundle.Manifest.Name)
		if err != nil {
			return a, err
		}
		a.Directory, a.UID, a.GID = dir, u.confined.User, u.confined.User
	}
	return a, nil
}

// leading reports whether an identity is that of a controller or cloud provider, or of a bundle,
// which its controllers share.
func (u *unit) leading(name string) bool {
	if e := u.entry(name); e != nil {
		return sdk.ControllingKind(e.Kind)
	}
	return slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return sdk.ControllingKind(e.Kind) })
}

// denied notes a request that was forbidden; the first of a kind is logged.
func (u *unit) denied(name, what, why string) {
	u.stateMu.Lock()
	if u.denials == nil {
		u.denials = map[string]denial{}
	}
	old := u.denials[name]
	u.denials[name] = denial{what, why, old.times + 1}
	u.stateMu.Unlock()
	if old.what != what || old.why != why {
		if ok, _ := u.budget.Spend(); ok {
			u.log.Warn("plugin was forbidden "+strings.Replace(why, "which", "what", 1), "name", name, "what", what)
		}
	}
}

// denial is what a plugin was forbidden so far; with a bundle's one plugin, also
// what the bundle was. stateMu is held.
func (u *unit) denial(name string) (denial, bool) {
	d, ok := u.denials[name]
	if !ok && len(u.bundle.Manifest.Plugins) == 1 {
		d, ok = u.denials[u.bundle.Manifest.Name]
	}
	return d, ok
}
