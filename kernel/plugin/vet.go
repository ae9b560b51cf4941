package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

var specPath = field.NewPath("spec")

// invalidError is what is wrong with a spec, by field.
type invalidError struct{ list field.ErrorList }

func (e invalidError) Error() string { return e.list.ToAggregate().Error() }

// Admit says what keeps the host from putting an object in force: of what it has
// loaded and what is installed, and of a trial of what would be started, configured
// or enabled anew, which ends before it returns. So the store holds no spec that was
// not tried. old is nil for a new object. Safe for concurrent use.
func (h *Host) Admit(ctx context.Context, old, o *v1alpha1.Plugin) field.ErrorList {
	p := h.present()
	c := change{name: o.Name, old: old, now: o}
	if old != nil {
		h.objects.mu.Lock()
		refused := h.objects.seen[o.Name] != nil && h.objects.seen[o.Name].refusal != nil
		h.objects.mu.Unlock()
		if refused && p.foreign(old) && old.Spec.Bundle == o.Spec.Bundle && old.Spec.Kind == o.Spec.Kind && !ptr.Deref(o.Spec.Enabled, true) {
			return nil // what another bundle took the place of may be switched off
		}
		if refused {
			c.old = h.inForce(o.Name)
		}
	}
	changes, err := h.rolledBack([]change{c})
	if err != nil {
		return field.ErrorList{field.Invalid(specPath.Child("rollbackTo"), o.Spec.RollbackTo.Revision, err.Error())}
	}
	w := p.wishes
	for _, c := range changes {
		w = w.with(p, c)
	}
	for _, c := range changes {
		if list := h.vetOne(p, w, c); len(list) > 0 {
			return list
		}
	}
	next, err := h.newPlan(p.base, w, p)
	if err == nil {
		err = h.rehearse(ctx, p, next, everything)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(specPath, o.Name, err.Error())}
	}
	return nil
}

// vet finds out what of changes cannot be, for reasons that are known before
// anything is started.
func (h *Host) vet(p *plan, w *wishes, changes []change) error {
	var all field.ErrorList
	for _, c := range changes {
		if c.now != nil {
			all = append(all, h.vetOne(p, w, c)...)
		}
	}
	if len(all) > 0 {
		return invalidError{all}
	}
	return nil
}

func (h *Host) vetOne(p *plan, w *wishes, c change) field.ErrorList {
	s := &c.now.Spec
	u, e := p.holds(c.name)
	bundle := (*manifest.Bundle)(nil)
	if u != nil {
		bundle = u.bundle
		if s.Bundle != bundle.Manifest.Name {
			return field.ErrorList{field.Invalid(specPath.Child("bundle"), s.Bundle, "plugin "+c.name+" is of the loaded bundle "+bundle.Manifest.Name)}
		}
	}
	if u == nil && !ptr.Deref(s.Enabled, true) && p.broken[s.Bundle] != nil {
		return nil // what cannot be used may be switched off
	}
	if u == nil || !fieldsEqual(p.wishes.wide[s.Bundle], w.wide[s.Bundle]) {
		other, list := h.vetBundle(p, w, s)
		if len(list) > 0 {
			return list
		}
		bundle, e = other, other.Entry(c.name)
	}
	switch {
	case e == nil:
		return field.ErrorList{field.Invalid(specPath.Child("bundle"), s.Bundle, fmt.Sprintf("version %s of the bundle has no plugin %s", bundle.Manifest.Version, c.name))}
	case e.Kind != string(s.Kind):
		return field.ErrorList{field.Invalid(specPath.Child("kind"), s.Kind, "plugin "+c.name+" is a "+e.Kind)}
	}
	return slices.Concat(vetUse(p, e, s), vetConfig(e, s), vetPermissions(bundle.Manifest, e, s, c.old), vetAdmissionRules(e, s), vetHostFunctions(bundle, s))
}

// vetBundle finds the build that a bundle's fields ask for.
func (h *Host) vetBundle(p *plan, w *wishes, s *v1alpha1.PluginSpec) (*manifest.Bundle, field.ErrorList) {
	bc := *bundleOf(p.base, s.Bundle)
	if wide := w.wide[s.Bundle]; wide != nil {
		wide.widely(&bc)
	}
	cfg := p.base
	b, err := h.locate(cfg, bc)
	if err == nil && b.Installed && bc.Version != "" && bc.Digest == "" && h.deps.Bundles != nil {
		if builds := h.deps.Bundles.Builds(s.Bundle, bc.Version); len(builds) > 0 {
			err = fmt.Errorf("plugin bundle %s: several builds say that they are version %s; choose one by its digest (pintle plugin upgrade --digest): %s", s.Bundle, bc.Version, strings.Join(builds, ", "))
		}
	}
	switch {
	case err != nil && bc.Version != "":
		return nil, field.ErrorList{field.Invalid(specPath.Child("version"), bc.Version, err.Error())}
	case err != nil && bc.Digest != "":
		return nil, field.ErrorList{field.Invalid(specPath.Child("digest"), bc.Digest, err.Error())}
	case err != nil:
		return nil, field.ErrorList{field.Invalid(specPath.Child("bundle"), s.Bundle, err.Error())}
	case bc.Digest != "" && !b.Is(bc.Version, bc.Digest):
		return nil, field.ErrorList{field.Invalid(specPath.Child("digest"), bc.Digest, "no installed build of the bundle has it; "+b.Directory+" has another")}
	}
	if _, err := h.resolveUnit(cfg, bc); err != nil {
		return nil, field.ErrorList{field.Invalid(specPath.Child("transport"), cmp.Or(bc.Transport, "any"), err.Error())}
	}
	return b, nil
}

// vetPermissions: an operator takes rules away and gives none. Rules that the object
// had are those of another version, of which this one has what it asks for.
func vetPermissions(m *manifest.Manifest, e *manifest.Entry, s *v1alpha1.PluginSpec, old *v1alpha1.Plugin) field.ErrorList {
	var list field.ErrorList
	shared := manifest.Permissions(m.Rules)
	if !sdk.ControllingKind(e.Kind) {
		shared = nil
	}
	for i, rule := range s.Permissions {
		if old != nil && slices.ContainsFunc(old.Spec.Permissions, func(o v1alpha1.PluginPermission) bool { return equality.Semantic.DeepEqual(o, rule) }) {
			continue
		}
		if !covers(shared, rule) && !covers(manifest.Permissions(e.Rules), rule) {
			list = append(list, field.Forbidden(specPath.Child("permissions").Index(i), "the plugin's manifest does not ask for all of it"))
		}
	}
	return list
}

// vetAdmissionRules checks their form. Those that the manifest does not ask for
// give nothing: the plugin is asked what both have.
func vetAdmissionRules(e *manifest.Entry, s *v1alpha1.PluginSpec) field.ErrorList {
	var list field.ErrorList
	path := specPath.Child("admissionRules")
	if len(s.AdmissionRules) > 0 && e.Kind != sdk.KindAdmission {
		return append(list, field.Forbidden(path, "may only be specified for admission plugins"))
	}
	for i, r := range grantedRules(s) {
		if fault := r.Fault(); fault != "" {
			list = append(list, field.Invalid(path.Index(i), r.String(), fault))
		}
	}
	return list
}

// vetHostFunctions: these too are taken away only.
func vetHostFunctions(b *manifest.Bundle, s *v1alpha1.PluginSpec) field.ErrorList {
	var list field.ErrorList
	for i, name := range s.HostFunctions {
		if !slices.Contains(manifest.HostFunctions, name) {
			list = append(list, field.NotSupported(specPath.Child("hostFunctions").Index(i), name, manifest.HostFunctions))
		} else if !wasm.Granted(b.Manifest)(name) {
			list = append(list, field.Forbidden(specPath.Child("hostFunctions").Index(i), "the bundle's manifest does not ask for it"))
		}
	}
	return list
}

// vetUse checks where a plugin is to be used.
func vetUse(p *plan, e *manifest.Entry, s *v1alpha1.PluginSpec) field.ErrorList {
	var list field.ErrorList
	enabled := ptr.Deref(s.Enabled, true)
	switch e.Kind {
	case sdk.KindRuntime, sdk.KindProxy, sdk.KindNetwork:
		if enabled != slices.Contains(slices.Concat(p.base.Runtimes, p.base.Proxies, p.base.Networks), e.Name) {
			list = append(list, field.Forbidden(specPath.Child("enabled"), "node.runtime, node.network and node.proxies of the configuration say which runtimes, networks and proxies are used"))
		}
	default:
		if !sdk.SchedulingKind(e.Kind) {
			break
		}
		var have []string
		for _, profile := range p.base.Profiles {
			have = append(have, profile.SchedulerName)
		}
		for i, name := range s.Profiles {
			if !slices.Contains(have, name) {
				list = append(list, field.NotSupported(specPath.Child("profiles").Index(i), name, have))
			}
		}
		if enabled && len(have) == 0 {
			list = append(list, field.Forbidden(specPath.Child("enabled"), "the configuration has no scheduler profile that could use it"))
		}
	}
	return list
}

func vetConfig(e *manifest.Entry, s *v1alpha1.PluginSpec) field.ErrorList {
	if s.Config == nil {
		return nil
	}
	return e.CheckConfig(s.Config.Raw, specPath.Child("config"))
}
