package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

// ConfigError is what is wrong with a plugin's configuration, as the file has it.
type ConfigError struct {
	Bundle, Plugin string
	// Profile, if not empty, is the schedulerName of the profile that says it.
	Profile string
	// List has the faults, with paths below the plugin's configuration.
	List field.ErrorList
}

func (e *ConfigError) Error() string {
	if e.Profile != "" {
		return fmt.Sprintf("scheduler profile %s: %s", e.Profile, e.List.ToAggregate().Error())
	}
	return fmt.Sprintf("plugin bundle %s: %s", e.Bundle, e.List.ToAggregate().Error())
}

func profileConfigPath(plugin string) *field.Path { return field.NewPath("config", plugin) }

// checkConfigs validates what a bundle is configured with.
func checkConfigs(b *manifest.Bundle, bc *BundleConfig) error {
	configs, err := parseConfigs(bc)
	if err != nil {
		return nil //nolint:nilerr // told when it is started
	}
	var faults []error
	var have []string
	for i := range b.Manifest.Plugins {
		have = append(have, b.Manifest.Plugins[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if !slices.Contains(have, guest.PluginOf(name)) {
			faults = append(faults, &ConfigError{Bundle: bc.Name, Plugin: name, List: field.ErrorList{field.NotSupported(field.NewPath("config", name), name, have)}})
		}
	}
	for i := range b.Manifest.Plugins {
		e := &b.Manifest.Plugins[i]
		if len(configs[e.Name]) == 0 {
			continue
		}
		if list := e.CheckConfig(configs[e.Name], field.NewPath("config", e.Name)); len(list) > 0 {
			faults = append(faults, &ConfigError{Bundle: bc.Name, Plugin: e.Name, List: list})
		}
	}
	return errors.Join(faults...)
}

// unconfigured finds plugins that are to be used, whose schema requires something, and
// that have no configuration, neither of their own nor of a profile.
func (p *plan) unconfigured(u *unit) error {
	var faults []error
	for i := range u.bundle.Manifest.Plugins {
		e := &u.bundle.Manifest.Plugins[i]
		if e.ConfigSchema == nil || !e.ConfigSchema.Requires() || !p.enabled(e.Name) || len(p.config(e.Name)) > 0 {
			continue
		}
		if slices.ContainsFunc(p.base.Profiles, func(profile Profile) bool { return len(profile.Config[e.Name]) > 0 }) {
			continue
		}
		if list := e.CheckConfig([]byte("{}"), field.NewPath("config", e.Name)); len(list) > 0 {
			faults = append(faults, &ConfigError{Bundle: u.bundle.Manifest.Name, Plugin: e.Name, List: list})
		}
	}
	return errors.Join(faults...)
}
