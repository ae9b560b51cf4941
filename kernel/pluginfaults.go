package kernel

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/sdk"
)

// located turns what is wrong with plugins' configurations into faults of the
// configuration file, with their lines; other errors it leaves alone.
func located(cfg *config.Config, err error) error {
	var faults config.Faults
	for _, e := range errorsOf[*plugin.NameError](err) {
		faults = append(faults, cfg.FaultAt(placeOf(cfg, e), e.Error()))
	}
	for _, e := range errorsOf[*plugin.ConfigError](err) {
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

// placeOf is the key under which the file has a name.
func placeOf(cfg *config.Config, e *plugin.NameError) []string {
	listed := func(path []string, names []string) []string {
		if at := slices.Index(names, e.Name); at >= 0 {
			path = append(path, strconv.Itoa(at))
		}
		return path
	}
	switch e.Kind {
	case sdk.KindAdmission:
		return listed([]string{"admission", "enabled"}, cfg.Admission.Enabled)
	case sdk.KindAPIServer:
		return listed([]string{"apiServers", "enabled"}, cfg.APIServers.Enabled)
	case sdk.KindCloud:
		return []string{"cloud", "provider"}
	case sdk.KindController:
		if at := slices.Index(onDemand(cfg), e.Name); at >= 0 {
			return []string{"controllers", "onDemand", strconv.Itoa(at), "name"}
		}
		return listed([]string{"controllers", "enabled"}, cfg.Control.Enabled)
	}
	at := slices.IndexFunc(cfg.Scheduler.Profiles, func(p config.Profile) bool { return p.SchedulerName == e.Profile })
	if at < 0 {
		return []string{"scheduler", "profiles"}
	}
	p := &cfg.Scheduler.Profiles[at]
	path := []string{"scheduler", "profiles", strconv.Itoa(at)}
	switch e.Kind {
	case sdk.KindPredicate:
		return listed(append(path, "predicates"), p.Predicates)
	case sdk.KindPriority:
		var names []string
		for _, w := range p.Priorities {
			names = append(names, w.Name)
		}
		return listed(append(path, "priorities"), names)
	}
	words := strings.Split(e.Kind, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return append(path, strings.Join(words, ""))
}

// errorsOf finds the errors of a type in what may be several errors.
func errorsOf[E error](err error) []E {
	var one E
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case nil:
		return nil
	case E:
		return []E{e}
	case interface{ Unwrap() []error }:
		var all []E
		for _, inner := range e.Unwrap() {
			all = append(all, errorsOf[E](inner)...)
		}
		return all
	}
	if errors.As(err, &one) {
		return errorsOf[E](errors.Unwrap(err))
	}
	return nil
}
