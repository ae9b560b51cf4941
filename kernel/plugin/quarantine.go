package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// unusable is a bundle that is installed, that the configuration does not load, and
// that cannot be used. It keeps nothing else from starting: it is left out of the
// plan, and its Plugin objects say why.
type unusable struct {
	name, reason string
	fault        error
	manifest     *manifest.Manifest // nil: it cannot be read
}

func newBroken(u *unit, name string, err error) *unusable {
	b := &unusable{name: name, fault: err, reason: err.Error() + "; pintle plugin remove " + name + " takes it away"}
	if u != nil {
		b.manifest = u.bundle.Manifest
	}
	return b
}

// failures remembers, by their builds, the bundles that could not be started. A
// build that failed is not started again on its own account.
type failures map[string]failure

type failure struct {
	bundle string
	err    error
}

func (u *unit) build() string { return u.bundle.Directory + " " + u.transport + " " + u.digest }

// unfit returns why a build is not used.
func (h *Host) unfit(u *unit) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed[u.build()].err
}

// setAside notes which of a plan's units could not be started, as far as the
// configuration does not ask for them; it reports whether there are some.
func (h *Host) setAside(p *plan) bool {
	some := false
	for _, u := range p.units {
		err := u.hopeless()
		if err == nil || !p.configs[u].Installed {
			continue
		}
		h.mu.Lock()
		if _, known := h.failed[u.build()]; !known {
			h.failed[u.build()], some = failure{u.bundle.Manifest.Name, err}, true
		}
		h.mu.Unlock()
		h.log.Error("installed plugin bundle is set aside", "bundle", u.bundle.Manifest.Name, "version", u.bundle.Manifest.Version, "error", err)
	}
	return some
}

// Fault returns why an installed bundle is not used, or not as it is installed.
func (h *Host) Fault(bundle string) error {
	p := h.present()
	if b := p.broken[bundle]; b != nil {
		return errors.New(b.reason)
	}
	return p.held[bundle]
}

// hopeless is why a unit that was started did not come to run, or nil.
func (u *unit) hopeless() error {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	return u.fault
}

// late notes that a unit did not start in the time that it had.
func (u *unit) late() error {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	if u.fault == nil {
		last := ""
		if u.message != "" {
			last = ": " + u.message
		}
		u.fault = fmt.Errorf("plugin bundle %s: version %s %w: it did not start in time%s", u.bundle.Manifest.Name, u.bundle.Manifest.Version, guest.ErrPermanent, last)
	}
	return u.fault
}

// installedUnit finds the unit of a bundle that the configuration does not load.
// Where its build cannot be used, that of the unit in force is kept, if there is one.
func (h *Host) installedUnit(cfg *Config, bc *BundleConfig, old []*unit) (u *unit, held error, b *unusable) {
	u, err := h.resolveUnit(cfg, *bc)
	if err == nil {
		err = h.unfit(u)
	}
	if err == nil {
		return u, nil, nil
	}
	// What is in force, or ran when the last kernel ended.
	var builds []v1alpha1.PluginVersion
	for _, o := range old {
		if o.bundle.Manifest.Name == bc.Name && o.hopeless() == nil {
			builds = append(builds, v1alpha1.PluginVersion{Version: o.bundle.Manifest.Version, Digest: o.digest})
		}
	}
	h.mu.Lock()
	builds = append(builds, h.former[bc.Name]...)
	h.mu.Unlock()
	for _, v := range builds {
		pinned := *bc
		pinned.Transport, pinned.Version, pinned.Digest, pinned.Directory = "", v.Version, v.Digest, ""
		if kept, keptErr := h.resolveUnit(cfg, pinned); keptErr == nil && kept.digest == kept.artifact.Digest && h.unfit(kept) == nil {
			*bc = pinned
			return kept, err, nil
		}
	}
	return nil, nil, newBroken(u, bc.Name, err)
}

// clash says that a plugin is in two bundles.
func clash(plugin, one, other string) error {
	return fmt.Errorf("plugin %s is in bundle %s and in bundle %s; load one of them", plugin, one, other)
}

// configured reports whether the configuration uses a plugin of a unit.
func (p *plan) configured(u *unit) bool {
	return slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return string(p.seeds[e.Name]["enabled"]) == "true" })
}

// formerBuilds are the builds of a bundle that ran before, by its objects, without
// the one that failed; the last one first.
func (p *plan) formerBuilds(u *unit) []v1alpha1.PluginVersion {
	asking := map[string]*v1alpha1.Plugin{}
	for _, e := range u.bundle.Manifest.Plugins {
		if o := p.wishes.objects[e.Name]; o != nil && o.Spec.Bundle == u.bundle.Manifest.Name {
			asking[e.Name] = o
		}
	}
	var out []v1alpha1.PluginVersion
	add := func(v v1alpha1.PluginVersion) {
		is := v.Version == u.bundle.Manifest.Version && v.Digest == u.digest
		if v.Version != "" && v.Digest != "" && !is && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(asking)) {
		add(v1alpha1.PluginVersion{Version: asking[name].Status.Version, Digest: asking[name].Status.Digest})
	}
	for _, name := range slices.Sorted(maps.Keys(asking)) {
		for _, r := range asking[name].Status.Previous {
			add(r.PluginVersion)
		}
	}
	return out
}

// pinned are the fields of a bundle that ask for a build.
func pinned(f fields, v v1alpha1.PluginVersion) fields {
	out := maps.Clone(f)
	if out == nil {
		out = fields{}
	}
	delete(out, "transport") // the digest says which
	said := fieldsOf(&v1alpha1.PluginSpec{Version: v.Version, Digest: v.Digest})
	out.put("version", said["version"])
	out.put("digest", said["digest"])
	return out
}

// withoutFailed is the plan after units of it could not be started: a bundle for
// which Plugin objects ask is that of the last build that ran, or else as configured;
// one that is only installed is set aside. What the configuration asks for and
// cannot be started is the end.
func (h *Host) withoutFailed(ctx context.Context, p *plan, fault error) (*plan, error) {
	refusals := map[string]*refusal{}
	var changes []change
	former := map[string][]v1alpha1.PluginVersion{}
	for fault != nil {
		if ctx.Err() != nil {
			return nil, fault
		}
		before := p
		w := p.wishes.clone()
		for _, u := range p.units {
			failed := u.hopeless()
			if failed == nil {
				continue
			}
			name := u.bundle.Manifest.Name
			asking := p.asking(u)
			if _, known := former[name]; !known {
				former[name] = p.formerBuilds(u)
				for _, e := range u.bundle.Manifest.Plugins {
					if o := asking[e.Name]; o != nil {
						refusals[e.Name] = &refusal{reason: reasonStartFailed, message: failed.Error(), again: p.configs[u].Installed}
						changes = append(changes, change{name: e.Name, now: o})
					}
				}
				if p.configs[u].Installed {
					h.mu.Lock()
					h.former[name] = former[name]
					h.mu.Unlock()
				}
			}
			if p.configs[u].Installed && h.setAside(&plan{units: []*unit{u}, configs: p.configs}) && h.keeps(p, w, name) {
				continue
			}
			if !p.configs[u].Installed && p.asksForBuild(asking) {
				if next := h.useFormer(p, w, name, former); next != nil {
					w = next
					continue
				}
			}
			switch {
			case len(asking) == 0 && !p.configs[u].Installed:
				return nil, fault
			case p.configs[u].Installed && p.configured(u):
				return nil, fmt.Errorf("%w; the configuration uses it: take its plugins out there, or pintle plugin remove %s and install a version that starts", fault, name)
			}
			for plugin := range asking {
				delete(w.objects, plugin)
			}
			delete(w.wide, name)
		}
		next, err := h.newPlan(p.base, w, p.healthy())
		if err != nil {
			return nil, errors.Join(fault, err)
		}
		for _, u := range next.units {
			if u.active && !slices.Contains(before.units, u) {
				h.launch(h.ctx, u)
			}
		}
		h.replaceAtStart(next)
		p, fault = next, settle(ctx, next.units)
	}
	if len(changes) > 0 {
		for _, c := range changes {
			r := refusals[c.name]
			if u, _ := p.holds(c.name); u != nil {
				r.message += "; version " + u.bundle.Manifest.Version + " is in force"
			}
		}
		h.log.Error("what Plugin objects ask of a bundle cannot be started; what ran before is in force, or else it is as configured")
		h.settleObjects(changes, refusals)
	}
	return p, nil
}

// keeps reports whether a build of an installed bundle takes the place of one that was
// set aside.
func (h *Host) keeps(p *plan, w *wishes, bundle string) bool {
	next, err := h.newPlan(p.base, w, p.healthy())
	return err == nil && next.held[bundle] != nil
}

// asking are the objects that ask something else of a unit than the configuration.
func (p *plan) asking(u *unit) map[string]*v1alpha1.Plugin {
	out := map[string]*v1alpha1.Plugin{}
	for i := range u.bundle.Manifest.Plugins {
		name := u.bundle.Manifest.Plugins[i].Name
		if o := p.wishes.objects[name]; o != nil && !fieldsEqual(p.seeds[name], fieldsOf(p.specs[name])) {
			out[name] = o
		}
	}
	return out
}

// asksForBuild reports whether objects ask for another build than the configuration.
// The build that the configuration names is used, or none.
func (p *plan) asksForBuild(asking map[string]*v1alpha1.Plugin) bool {
	for name := range asking {
		now := fieldsOf(p.specs[name])
		for _, field := range []string{"transport", "version", "digest"} {
			if !now.same(p.seeds[name], field) {
				return true
			}
		}
	}
	return false
}

// useFormer returns wishes for the next build that ran before and can be had.
func (h *Host) useFormer(p *plan, w *wishes, bundle string, former map[string][]v1alpha1.PluginVersion) *wishes {
	for len(former[bundle]) > 0 {
		v := former[bundle][0]
		former[bundle] = former[bundle][1:]
		next := w.clone()
		next.wide[bundle] = pinned(next.wide[bundle], v)
		if _, err := h.newPlan(p.base, next, p.healthy()); err == nil {
			return next
		}
	}
	return nil
}

// brokenObject is the name of the object that stands for a broken bundle of which no
// plugin can be shown.
func (p *plan) brokenObject(b *unusable) (plugins map[string]v1alpha1.PluginKind) {
	plugins = map[string]v1alpha1.PluginKind{}
	kind := v1alpha1.PluginKindUnknown
	if b.manifest != nil {
		for _, e := range b.manifest.Plugins {
			kind = v1alpha1.PluginKind(e.Kind)
			if p.specs[e.Name] == nil {
				plugins[e.Name] = kind
			}
		}
	}
	if len(plugins) == 0 && p.specs[b.name] == nil {
		plugins[b.name] = kind
	}
	return plugins
}

// writeBroken brings the objects of broken bundles to what is known of them.
func (h *Host) writeBroken(ctx context.Context, api *publisher) error {
	p := h.present()
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(p.broken)) {
		b := p.broken[name]
		shown := p.brokenObject(b)
		h.objects.mu.Lock()
		for other, t := range h.objects.seen {
			if t.known != nil && t.known.Spec.Bundle == name && p.specs[other] == nil && b.manifest == nil {
				delete(shown, name) // objects of former times stand for it
				shown[other] = t.known.Spec.Kind
			}
		}
		h.objects.mu.Unlock()
		for _, plugin := range slices.Sorted(maps.Keys(shown)) {
			if err := h.writeBrokenOne(ctx, api, b, plugin, shown[plugin]); err != nil {
				faults = append(faults, fmt.Errorf("plugin %s: %w", plugin, err))
			}
		}
	}
	return errors.Join(faults...)
}

func (h *Host) writeBrokenOne(ctx context.Context, api *publisher, b *unusable, name string, kind v1alpha1.PluginKind) error {
	ctx, cancel := context.WithTimeout(ctx, writeFor)
	defer cancel()
	h.objects.mu.Lock()
	defer h.objects.mu.Unlock()
	t := h.objects.seen[name]
	if t == nil {
		made := &v1alpha1.Plugin{}
		err := api.plugin.Post().Resource("plugins").Body(&v1alpha1.Plugin{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Plugin"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managedLabel: managedByHost}, Annotations: map[string]string{v1alpha1.ConfiguredAnnotation: `{"enabled":false}`}},
			Spec:       v1alpha1.PluginSpec{Bundle: b.name, Kind: kind, Enabled: ptr.To(false)},
		}).Do(ctx).Into(made)
		if apierrors.IsAlreadyExists(err) {
			return nil // the watch brings it
		}
		if err != nil {
			return fmt.Errorf("create: %w", err)
		}
		t = &tracked{known: made, settled: made}
		h.objects.seen[name] = t
	}
	if t.known == nil {
		return nil
	}
	status := t.known.Status
	status.State, status.Message, status.PID = v1alpha1.PluginStateFailed, b.reason, 0
	if status.Bundle = b.name; b.manifest != nil {
		status.Version = b.manifest.Version
	}
	if was := t.known.Status.LastTransition; t.known.Status.State != status.State || was == nil {
		status.LastTransition = &metav1.Time{Time: time.Now()}
	}
	return h.lost(t, h.writeStatus(ctx, api, t, status))
}

// shows reports whether an object stands for a broken bundle.
func (p *plan) shows(name string, o *v1alpha1.Plugin) bool {
	b := p.broken[o.Spec.Bundle]
	if b == nil {
		return false
	}
	if b.manifest == nil {
		return true
	}
	_, is := p.brokenObject(b)[name]
	return is
}

// unheld finds changes that name a version which a plan has another build for.
func (p *plan) unheld(changes []change) error {
	for _, c := range changes {
		if c.now != nil && c.now.Spec.Version != "" {
			if held := p.held[c.now.Spec.Bundle]; held != nil {
				return held
			}
		}
	}
	return nil
}
