package plugin

import (
	"slices"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// inUse reports whether a plugin is in use: a profile has it, it is an enabled
// controller, admission plugin or API server, the cloud provider, or the node's runtime, network or one of its proxies.
func (p *plan) inUse(e *manifest.Entry) bool {
	switch e.Kind {
	case sdk.KindController:
		return slices.Contains(p.cfg.Controllers, e.Name)
	case sdk.KindCloud:
		return slices.Contains(p.cfg.Cloud, e.Name)
	case sdk.KindAdmission:
		return slices.Contains(p.cfg.Admission, e.Name)
	case sdk.KindRuntime:
		return slices.Contains(p.cfg.Runtimes, e.Name)
	case sdk.KindAPIServer:
		return slices.Contains(p.cfg.APIServers, e.Name)
	case sdk.KindNetwork:
		return slices.Contains(p.cfg.Networks, e.Name)
	case sdk.KindProxy:
		return slices.Contains(p.cfg.Proxies, e.Name)
	}
	for i := range p.cfg.Profiles {
		if _, uses := p.cfg.Profiles[i].weight(e.Name, e.Kind); uses {
			return true
		}
	}
	return false
}

// wants reports whether a unit has a plugin that is in use. One that has none is
// known by its manifest alone: no process and no module of it runs, it has no
// role, and the API knows it by no socket.
func (p *plan) wants(u *unit) bool {
	for i := range u.bundle.Manifest.Plugins {
		if p.inUse(&u.bundle.Manifest.Plugins[i]) {
			return true
		}
	}
	return false
}

// waits reports whether a plugin is enabled, and starts when something asks for it.
func (p *plan) waits(name string) bool {
	return slices.Contains(p.cfg.Waiting, name) && p.enabled(name)
}

// awaited reports whether a plugin of a unit waits.
func (p *plan) awaited(u *unit) bool {
	return slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return p.waits(e.Name) })
}

// status is how a plugin is within the plan.
func (p *plan) status(u *unit, e *manifest.Entry) v1alpha1.PluginStatus {
	waits := p.waits(e.Name)
	st := u.status(e, u.active && p.enabled(e.Name) && !waits)
	if waits {
		st.State, st.Message = v1alpha1.PluginStateIdle, "it starts with the first object that asks for it, as controllers.onDemand of the configuration says"
	}
	return st
}
