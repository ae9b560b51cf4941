package kernel

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
)

// located turns what is wrong with plugins' configurations into faults of the
// configuration file, with their lines; other errors it leaves alone.
func located(cfg *config.Config, err error) error {
	var faults config.Faults
	for _, e := range configErrors(err) {
		list := []string{"plugins", "bundles"}
		at := slices.IndexFunc(cfg.Plugins.Bundles, func(b config.Bundle) bool { return b.Name == e.Bundle })
		if e.Profile != "" {
			list = []string{"scheduler", "profiles"}
			at = slices.IndexFunc(cfg.Scheduler.Profiles, func(p config.Profile) bool { return p.SchedulerName == e.Profile })
		}
		if at < 0 {
			return err
		}
		for _, fault := range e.List {
			path := append(slices.Clone(list), strconv.Itoa(at))
			field := strings.NewReplacer("[", ".", "]", "").Replace(fault.Field)
			path = append(path, strings.Split(field, ".")...)
			faults = append(faults, cfg.FaultAt(path, fault.ErrorBody()))
		}
	}
	if len(faults) == 0 {
		return err
	}
	return faults
}

// configErrors finds them in what may be several errors.
func configErrors(err error) []*plugin.ConfigError {
	var one *plugin.ConfigError
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
		return nil
	case *plugin.ConfigError:
		return []*plugin.ConfigError{e}
	case interface{ Unwrap() []error }:
		var all []*plugin.ConfigError
		for _, inner := range e.Unwrap() {
			all = append(all, configErrors(inner)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return configErrors(errors.Unwrap(err))
	}
	return nil
}
