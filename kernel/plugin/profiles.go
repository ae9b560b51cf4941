package plugin

import (
	"cmp"
	"fmt"
	"slices"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// switchProfiles builds all profiles' policies and then turns to them. mu is held.
func (h *Host) switchProfiles(cfg *Config, units []*unit) error {
	built := map[string]*Policy{}
	for _, profile := range cfg.Profiles {
		p, err := h.build(profile, units)
		if err != nil {
			return err
		}
		built[profile.SchedulerName] = p
	}
	h.sourceMu.Lock()
	defer h.sourceMu.Unlock()
	for name, s := range h.sources {
		if built[name] == nil {
			s.policy.Store(nil)
			s.signal()
		}
	}
	for name, p := range built {
		s := h.sources[name]
		if s == nil {
			s = &Source{changed: make(chan struct{}, 1)}
			h.sources[name] = s
		}
		s.policy.Store(p)
		s.signal()
	}
	return nil
}

func (h *Host) build(profile Profile, units []*unit) (*Policy, error) {
	p := &Policy{host: h, inUse: make(chan struct{})}
	h.touch(p)
	add := func(name, kind string) (*unit, *Entry, *contractv1.PluginDescription, error) {
		u, e := holder(units, name, kind)
		if u == nil {
			return nil, nil, nil, known(units, name, kind, "scheduler profile "+profile.SchedulerName)
		}
		if !slices.Contains(p.units, u) {
			p.units = append(p.units, u)
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if d := u.described[name]; d != nil {
			return u, e, d, nil
		}
		return nil, nil, nil, fmt.Errorf("plugin %s: %w", name, u.unavailable())
	}
	for _, name := range profile.Predicates {
		u, e, d, err := add(name, sdk.KindPredicate)
		if err != nil {
			return nil, err
		}
		p.filters = append(p.filters, place{u, name})
		p.predicates = append(p.predicates, contractv1.PredicateInfo{
			Name: name, Scope: cmp.Or(d.GetScope(), string(sdk.ScopeNode)), Reads: reads(e, d), IgnoreFailure: u.ignores(e), Group: p.group(u),
		})
	}
	for _, w := range profile.Priorities {
		u, e, d, err := add(w.Name, sdk.KindPriority)
		if err != nil {
			return nil, err
		}
		p.scorers = append(p.scorers, place{u, w.Name})
		p.priorities = append(p.priorities, contractv1.PriorityInfo{
			Name: w.Name, Scope: cmp.Or(d.GetScope(), string(sdk.ScopeNode)), Normalize: cmp.Or(d.GetNormalize(), string(sdk.NormalizeNone)),
			Reads: reads(e, d), Weight: max(w.Weight, 1), IgnoreFailure: u.ignores(e), Group: p.group(u),
		})
	}
	return p, nil
}

// group is the number of a bundle whose plugins are better asked together.
func (p *Policy) group(u *unit) int {
	if u.transport != TransportProcess {
		return 0
	}
	return slices.Index(p.units, u) + 1
}

// reads joins what the manifest and the artefact declare.
func reads(e *Entry, d *contractv1.PluginDescription) []string {
	all := slices.Concat(e.Reads, d.GetReads())
	slices.Sort(all)
	return slices.Compact(all)
}
