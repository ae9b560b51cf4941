package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"pintle.dev/pintle/kernel/plugin/guest"
)

// named is where the profile's plugin is asked: at an instance of its own, or at
// the one that all profiles share.
func (p *Profile) named(plugin string) string {
	if len(p.Config[plugin]) > 0 {
		return guest.InstanceName(plugin, p.SchedulerName)
	}
	return plugin
}

// instances adds to the configurations of a bundle's plugins those of their
// instances: of plugins that the profiles use.
func (p *plan) instances(bundle string, into map[string]json.RawMessage) {
	for i := range p.cfg.Profiles {
		profile := &p.cfg.Profiles[i]
		for name, config := range profile.Config {
			spec := p.specs[name]
			if spec == nil || spec.Bundle != bundle || len(config) == 0 {
				continue
			}
			if _, uses := profile.weight(name, string(spec.Kind)); uses {
				into[guest.InstanceName(name, profile.SchedulerName)] = config
			}
		}
	}
}

// checkProfileConfigs checks that profiles configure plugins that there are.
func (p *plan) checkProfileConfigs() error {
	var faults []error
	for i := range p.cfg.Profiles {
		profile := &p.cfg.Profiles[i]
		for name, config := range profile.Config {
			u, e := p.holds(name)
			if e == nil {
				faults = append(faults, fmt.Errorf("scheduler profile %s: config: no loaded bundle has plugin %q", profile.SchedulerName, name))
				continue
			}
			if list := e.CheckConfig(config, profileConfigPath(name)); len(list) > 0 {
				faults = append(faults, &ConfigError{Bundle: u.bundle.Manifest.Name, Plugin: name, Profile: profile.SchedulerName, List: list})
			}
		}
	}
	return errors.Join(faults...)
}

// position finds the index of a plugin, or of an instance, which is made if it is
// not there.
func (u *unit) position(ctx context.Context, g guest.Guest, index map[string]int, name string) (int, error) {
	if i, ok := index[name]; ok {
		return i, nil
	}
	plugin, bundle := guest.PluginOf(name), u.bundle.Manifest.Name
	i, ok := index[plugin]
	if !ok {
		return 0, fmt.Errorf("plugin bundle %s: config: it has no plugin %s", bundle, plugin)
	}
	if !g.Describe()[i].GetInstances() {
		return 0, fmt.Errorf("plugin bundle %s: scheduler profile %s configures plugin %s apart, and its build has one instance for all profiles; configure it in plugins.bundles, or build it with sdk.RegisterNew",
			bundle, guest.ProfileOf(name), plugin)
	}
	made, err := g.Another(ctx, i, name)
	if err != nil {
		return 0, fmt.Errorf("plugin bundle %s: instance of %s for profile %s: %w", bundle, plugin, guest.ProfileOf(name), err)
	}
	index[name] = made
	return made, nil
}
