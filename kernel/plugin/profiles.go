package plugin

import (
	"cmp"
	"fmt"
	"slices"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// policies builds the policy of each profile, by schedulerName. Guests take up
// reconfigurations before a policy is in use.
func (h *Host) policies(p *plan, reconfigurations []*reconfiguration) (map[string]*Policy, error) {
	built := map[string]*Policy{}
	for _, profile := range p.cfg.Profiles {
		policy, err := h.build(profile, p)
		if err != nil {
			return nil, err
		}
		policy.reconfigurations = reconfigurations
		built[profile.SchedulerName] = policy
	}
	for _, r := range reconfigurations {
		for _, policy := range built {
			r.claimed = r.claimed || slices.Contains(policy.units, r.unit)
		}
	}
	return built, nil
}

// turn hands the policies to the scheduler, which takes each up between two decisions.
func (h *Host) turn(policies map[string]*Policy) {
	h.sourceMu.Lock()
	defer h.sourceMu.Unlock()
	for name := range policies {
		if h.sources[name] == nil {
			h.sources[name] = &Source{changed: make(chan struct{}, 1)}
		}
	}
	for name, s := range h.sources {
		if before := s.policy.Swap(policies[name]); before != nil {
			before.replace()
		}
		s.signal()
	}
}

func (h *Host) build(profile Profile, plan *plan) (*Policy, error) {
	units := plan.units
	p := &Policy{host: h, inUse: make(chan struct{}), replaced: make(chan struct{})}
	h.touch(p)
	add := func(name, kind string) (*unit, *manifest.Entry, *contractv1.PluginDescription, error) {
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
		p.filters = append(p.filters, place{unit: u, name: profile.named(name), expires: d.GetExpires()})
		p.predicates = append(p.predicates, contractv1.PredicateInfo{
			Name: name, Scope: cmp.Or(d.GetScope(), string(sdk.ScopeNode)), Reads: reads(e, d), IgnoreFailure: plan.ignores(u, e), Group: p.group(u),
			Hearing: p.hears(place{unit: u, name: profile.named(name)}, name, d), Pods: d.GetPods(), Expires: d.GetExpires(),
		})
	}
	for _, w := range profile.Priorities {
		u, e, d, err := add(w.Name, sdk.KindPriority)
		if err != nil {
			return nil, err
		}
		p.scorers = append(p.scorers, place{unit: u, name: profile.named(w.Name), expires: d.GetExpires()})
		normalize := cmp.Or(d.GetNormalize(), string(sdk.NormalizeNone))
		keepsZero := normalize == string(sdk.NormalizePluginNonzero)
		if keepsZero {
			normalize = string(sdk.NormalizePlugin)
		}
		p.priorities = append(p.priorities, contractv1.PriorityInfo{
			Name: w.Name, Scope: cmp.Or(d.GetScope(), string(sdk.ScopeNode)), Normalize: normalize, KeepsZero: keepsZero, MaxScore: d.GetMaxScore(),
			Reads: reads(e, d), Weight: max(w.Weight, 1), Pods: d.GetPods(), IgnoreFailure: plan.ignores(u, e), Group: p.group(u), Expires: d.GetExpires(),
		})
	}
	for at, kind := range pointKinds {
		for _, name := range profile.Points[kind] {
			u, e, d, err := add(name, kind)
			if err != nil {
				return nil, err
			}
			p.enlist(at, place{unit: u, name: profile.named(name)}, contractv1.PointInfo{
				Name: name, Scope: cmp.Or(d.GetScope(), string(sdk.ScopeNode)), Reads: reads(e, d), IgnoreFailure: plan.ignores(u, e),
				Hearing: p.hears(place{unit: u, name: profile.named(name)}, name, d), ByClass: d.GetByClass(), Samples: d.GetSamples(), Ranks: d.GetRanks(), Pods: d.GetPods(),
			})
		}
	}
	if binders := p.points[contractv1.Point_BIND]; profile.BindersOnly && len(binders) > 0 {
		binders[len(binders)-1].Last = true
	}
	for _, u := range p.units {
		p.versions = append(p.versions, contractv1.BundleVersion{Bundle: u.bundle.Manifest.Name, Version: u.bundle.Manifest.Version, Digest: u.digest})
	}
	return p, nil
}

func (p *Policy) enlist(at contractv1.Point, where place, info contractv1.PointInfo) {
	if p.points == nil {
		p.points, p.places = contractv1.Points{}, map[contractv1.Point][]place{}
	}
	p.places[at] = append(p.places[at], where)
	p.points[at] = append(p.points[at], info)
}

// hears is what a plugin says of events. One that can be asked about them is
// listed at its point.
func (p *Policy) hears(where place, name string, d *contractv1.PluginDescription) contractv1.Hearing {
	asked := slices.ContainsFunc(d.GetEvents(), (*contractv1.Interest).GetHint)
	listed := slices.ContainsFunc(p.points[contractv1.Point_QUEUEING_HINT], func(i contractv1.PointInfo) bool { return i.Name == name })
	if asked && !listed {
		p.enlist(contractv1.Point_QUEUEING_HINT, where, contractv1.PointInfo{Name: name})
	}
	return contractv1.Hearing{Hears: d.GetHears() || len(d.GetEvents()) > 0, Events: d.GetEvents()}
}

// group is the number of a bundle, whose plugins are better asked together.
func (p *Policy) group(u *unit) int { return slices.Index(p.units, u) + 1 }

// reads joins what the manifest and the artefact declare.
func reads(e *manifest.Entry, d *contractv1.PluginDescription) []string {
	all := slices.Concat(e.Reads, d.GetReads())
	slices.Sort(all)
	return slices.Compact(all)
}
