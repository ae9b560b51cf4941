package plugin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// wishes is what Plugin objects ask for, as far as it is in force or tried. It
// is not changed once made.
type wishes struct {
	objects map[string]*v1alpha1.Plugin // by name
	// wide are the fields of bundles in which they differ from the configuration.
	wide map[string]fields
}

func (w *wishes) clone() *wishes {
	next := &wishes{objects: maps.Clone(w.objects), wide: map[string]fields{}}
	for bundle, f := range w.wide {
		next.wide[bundle] = maps.Clone(f)
	}
	return next
}

// plan is the configuration file with the objects laid over it, and the units
// that it takes. It is not changed once made.
type plan struct {
	base   *Config // what the configuration file says
	wishes *wishes
	cfg    Config
	units  []*unit
	// configs are the bundles as configured; a unit that is taken over may still
	// have the former configuration.
	configs map[*unit]BundleConfig
	specs   map[string]*v1alpha1.PluginSpec // in force, by plugin
	seeds   map[string]fields               // what the configuration says, by plugin
	// annotations are the seeds as objects remember them.
	annotations map[string]string
	// broken are installed bundles that are left out, held those of which another
	// build than the installed one is kept; both by name.
	broken map[string]*unusable
	held   map[string]error
	// rulesLeft keeps what left computed: []v1alpha1.PluginPermission by leftKey.
	rulesLeft sync.Map
}

// newPlan lays objects over a configuration and finds the units for it; those of
// the plan before that nothing changed about are taken over.
func (h *Host) newPlan(base *Config, w *wishes, before *plan) (*plan, error) {
	p := &plan{base: base, wishes: w, cfg: *base, configs: map[*unit]BundleConfig{}, specs: map[string]*v1alpha1.PluginSpec{}, seeds: map[string]fields{}, annotations: map[string]string{}, broken: map[string]*unusable{}, held: map[string]error{}}
	p.cfg.Bundles = slices.Clone(base.Bundles)
	// A bundle that only an object of somebody's own names is loaded by it.
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		o := w.objects[name]
		has := func(b BundleConfig) bool { return b.Name == o.Spec.Bundle }
		if o.Labels[managedLabel] != managedByHost && !slices.ContainsFunc(p.cfg.Bundles, has) {
			p.cfg.Bundles = append(p.cfg.Bundles, BundleConfig{Name: o.Spec.Bundle, Installed: true})
		}
	}
	for i := range p.cfg.Bundles {
		bc := &p.cfg.Bundles[i]
		if wide, ok := w.wide[bc.Name]; ok {
			wide.widely(bc)
		}
	}
	units, err := h.resolve(&p.cfg, before.units, p)
	if err != nil {
		return nil, err
	}
	p.units = units
	for _, u := range units {
		for i := range u.bundle.Manifest.Plugins {
			p.specify(u, &u.bundle.Manifest.Plugins[i])
		}
	}
	p.profiles()
	p.cfg.Controllers = p.named(base.Controllers, v1alpha1.PluginKindController)
	p.cfg.Admission = p.named(base.Admission, v1alpha1.PluginKindAdmission)
	p.cfg.APIServers = p.named(base.APIServers, v1alpha1.PluginKindAPIServer)
	p.cfg.Cloud = p.named(base.Cloud, v1alpha1.PluginKindCloud)
	if err := p.checkNames(); err != nil {
		return nil, err
	}
	p.cfg.Controllers = slices.DeleteFunc(p.cfg.Controllers, p.waits)
	if err := p.checkProfileConfigs(); err != nil {
		return nil, err
	}
	for i := range p.cfg.Bundles {
		p.configure(&p.cfg.Bundles[i])
	}
	for i, u := range units {
		next, wanted := p.cfg.Bundles[i], p.wants(u)
		if former, known := before.configs[u]; !known {
			u.config = next
		} else if _, ok := changedConfigs(&former, &next); !ok || u.active != wanted {
			// A configuration that is gone cannot be told to a running guest, and a
			// unit starts once and ends once.
			if u, err = h.resolveUnit(&p.cfg, next); err != nil {
				return nil, err
			}
			units[i] = u
		}
		if _, known := before.configs[u]; !known {
			u.active = wanted
		}
		if u.ungranted != nil && (u.active || p.awaited(u)) {
			return nil, u.ungranted
		}
		p.configs[u] = next
		if err := errors.Join(checkConfigs(u.bundle, &next), p.unconfigured(u)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// bundle returns what the configuration file says of a bundle.
func bundleOf(cfg *Config, name string) *BundleConfig {
	for i := range cfg.Bundles {
		if cfg.Bundles[i].Name == name {
			return &cfg.Bundles[i]
		}
	}
	return &BundleConfig{Name: name}
}

// specify works out the spec of one plugin.
func (p *plan) specify(u *unit, e *manifest.Entry) {
	name := u.bundle.Manifest.Name
	seed := seedOf(p.base, bundleOf(p.base, name), e)
	seed.Permissions = u.bundle.Manifest.AskedRules(e)
	p.seeds[e.Name] = fieldsOf(seed)
	p.annotations[e.Name] = p.seeds[e.Name].annotation()
	spec := seed.DeepCopy()
	o := p.wishes.objects[e.Name]
	if o != nil && (o.Spec.Bundle != name || string(o.Spec.Kind) != e.Kind) {
		o = nil // it speaks of another plugin of this name
	}
	f := merge(p.seeds[e.Name], o)
	f.into(spec, ownFields)
	wide := p.seeds[e.Name]
	if other, ok := p.wishes.wide[name]; ok {
		wide = other
	}
	wide.into(spec, wideFields)
	p.specs[e.Name] = spec
}

// seedOf is the spec of a plugin as the configuration has it.
func seedOf(cfg *Config, bc *BundleConfig, e *manifest.Entry) *v1alpha1.PluginSpec {
	s := &v1alpha1.PluginSpec{
		Bundle: bc.Name, Kind: v1alpha1.PluginKind(e.Kind), Transport: v1alpha1.PluginTransport(bc.Transport),
		Version: bc.Version, Digest: bc.Digest, Limits: objectLimits(bc.Limits),
		HostFunctions: bc.HostFunctions,
	}
	if bc.Timeout > 0 {
		s.Timeout = &metav1.Duration{Duration: bc.Timeout}
	}
	enabled := false
	switch e.Kind {
	case sdk.KindRuntime:
		enabled = slices.Contains(cfg.Runtimes, e.Name)
	case sdk.KindNetwork:
		enabled = slices.Contains(cfg.Networks, e.Name)
	case sdk.KindProxy:
		enabled = slices.Contains(cfg.Proxies, e.Name)
	case sdk.KindController:
		enabled = slices.Contains(cfg.Controllers, e.Name)
	case sdk.KindCloud:
		enabled = slices.Contains(cfg.Cloud, e.Name)
	case sdk.KindAPIServer:
		enabled = slices.Contains(cfg.APIServers, e.Name)
	case sdk.KindAdmission:
		enabled = slices.Contains(cfg.Admission, e.Name)
		s.AdmissionRules = objectRules(e.AdmissionRules)
		s.OnFailure = v1alpha1.PluginFailurePolicy(bc.OnFailure)
	default:
		if !sdk.SchedulingKind(e.Kind) {
			break
		}
		s.OnFailure = v1alpha1.PluginFailurePolicy(bc.OnFailure)
		for i := range cfg.Profiles {
			profile := &cfg.Profiles[i]
			if weight, uses := profile.weight(e.Name, e.Kind); uses {
				s.Profiles = append(s.Profiles, profile.SchedulerName)
				if e.Kind == sdk.KindPriority && s.Weight == nil {
					s.Weight = &weight
				}
			}
		}
		enabled = len(s.Profiles) > 0
	}
	s.Enabled = &enabled
	if configs, err := parseConfigs(bc); err == nil && len(configs[e.Name]) > 0 {
		s.Config = &runtime.RawExtension{Raw: configs[e.Name]}
	}
	return s
}

// weight reports whether a profile uses a plugin, and with which factor.
func (p *Profile) weight(name, kind string) (int64, bool) {
	switch kind {
	case sdk.KindPriority:
	case sdk.KindPredicate:
		return 1, slices.Contains(p.Predicates, name)
	default:
		return 1, slices.Contains(p.Points[kind], name)
	}
	for _, w := range p.Priorities {
		if w.Name == name {
			return max(w.Weight, 1), true
		}
	}
	return 1, false
}

// uses reports whether a spec puts a plugin into profile i.
func (p *plan) uses(spec *v1alpha1.PluginSpec, i int) bool {
	if !ptr.Deref(spec.Enabled, true) {
		return false
	}
	if len(spec.Profiles) == 0 {
		return i == 0
	}
	return slices.Contains(spec.Profiles, p.base.Profiles[i].SchedulerName)
}

// profiles are those of the configuration, in its order, without what objects
// take out; what they put in follows in the order of names.
func (p *plan) profiles() {
	p.cfg.Profiles = make([]Profile, len(p.base.Profiles))
	for i, before := range p.base.Profiles {
		next := Profile{SchedulerName: before.SchedulerName, BindersOnly: before.BindersOnly, Config: before.Config}
		listed := func(kind string, names []string) []string {
			var out []string
			for _, name := range names {
				// One that no bundle has is told by its name.
				if spec := p.specs[name]; spec == nil || string(spec.Kind) != kind || p.uses(spec, i) {
					out = append(out, name)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(p.specs)) {
				if spec := p.specs[name]; string(spec.Kind) == kind && p.uses(spec, i) && !slices.Contains(names, name) {
					out = append(out, name)
				}
			}
			return out
		}
		next.Predicates = listed(sdk.KindPredicate, before.Predicates)
		var names []string
		for _, w := range before.Priorities {
			names = append(names, w.Name)
		}
		for _, name := range listed(sdk.KindPriority, names) {
			weight, listed := before.weight(name, sdk.KindPriority)
			if spec := p.specs[name]; spec != nil && spec.Weight != nil {
				if seed := p.seeds[name]; !listed || !bytes.Equal(seed["weight"], fieldsOf(spec)["weight"]) {
					weight = *spec.Weight
				}
			}
			next.Priorities = append(next.Priorities, WeightedPriority{Name: name, Weight: weight})
		}
		next.Points = map[string][]string{}
		for _, kind := range sdk.CycleKinds() {
			if names := listed(kind, before.Points[kind]); len(names) > 0 {
				next.Points[kind] = names
			}
		}
		p.cfg.Profiles[i] = next
	}
}

// named are the plugins of a kind that the configuration lists, in its order,
// without what objects take out; what they put in follows in the order of names.
func (p *plan) named(base []string, kind v1alpha1.PluginKind) []string {
	on := func(name string) bool { return p.specs[name] == nil || ptr.Deref(p.specs[name].Enabled, true) }
	var list []string
	for _, name := range base {
		if on(name) {
			list = append(list, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.specs)) {
		if p.specs[name].Kind == kind && on(name) && !slices.Contains(base, name) {
			list = append(list, name)
		}
	}
	return list
}

// configure puts the plugins' configurations into the bundle's. What the
// configuration file says of plugins that are not there stays, to be complained
// about.
func (p *plan) configure(bc *BundleConfig) {
	configs, err := parseConfigs(bc)
	if err != nil {
		return // the guest's start tells
	}
	next := map[string]json.RawMessage{}
	maps.Copy(next, configs)
	for name, spec := range p.specs {
		if spec.Bundle != bc.Name {
			continue
		}
		delete(next, name)
		if spec.Config != nil && len(spec.Config.Raw) > 0 {
			next[name] = spec.Config.Raw
		}
	}
	p.instances(bc.Name, next)
	bc.Config = nil
	if len(next) > 0 {
		if text, err := json.Marshal(next); err == nil {
			bc.Config = text
		}
	}
}

// ignores reports whether a failing call of a plugin is left out.
func (p *plan) ignores(u *unit, e *manifest.Entry) bool {
	var said string
	if spec := p.specs[e.Name]; spec != nil {
		said = string(spec.OnFailure)
	}
	return cmp.Or(said, e.OnFailure, u.bundle.Manifest.OnFailure) == manifest.OnFailureIgnore
}

// enabled reports whether a plugin is to be used.
func (p *plan) enabled(name string) bool {
	spec := p.specs[name]
	return spec != nil && ptr.Deref(spec.Enabled, true)
}

// config returns the configuration of one plugin, or nil.
func (p *plan) config(name string) []byte {
	if spec := p.specs[name]; spec != nil && spec.Config != nil {
		return spec.Config.Raw
	}
	return nil
}
