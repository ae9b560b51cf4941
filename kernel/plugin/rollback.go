package plugin

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"pintle.dev/pintle/kernel/plugin/history"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// remember notes what was in force of a bundle that turns from one unit to another.
// The other transport of one build is no other version. mu is held.
func (h *Host) remember(p *plan, old, now *unit) {
	was := v1alpha1.PluginVersion{Version: old.bundle.Manifest.Version, Digest: old.digest}
	is := v1alpha1.PluginVersion{Version: now.bundle.Manifest.Version, Digest: now.digest}
	if was == is || old.bundle.Directory == now.bundle.Directory && was.Version == is.Version && old.transport != now.transport {
		return
	}
	r := history.Revision{Version: was, Plugins: map[string]v1alpha1.PluginRevision{}}
	for i := range old.bundle.Manifest.Plugins {
		name := old.bundle.Manifest.Plugins[i].Name
		spec, seed := p.specs[name], p.seeds[name]
		if spec == nil {
			continue
		}
		said := fieldsOf(spec)
		part := v1alpha1.PluginRevision{Config: spec.Config.DeepCopy()}
		if !said.same(seed, "permissions") {
			part.Permissions = spec.Permissions
		}
		if !said.same(seed, "admissionRules") {
			part.AdmissionRules = spec.AdmissionRules
		}
		r.Plugins[name], r.HostFunctions = part, spec.HostFunctions
	}
	h.previous.Add(old.bundle.Manifest.Name, r, is)
}

// rolledBack puts in the place of changes that ask for a rollback those of all
// plugins of the bundle, so that what was in force together is in force together
// again, or nothing of it.
func (h *Host) rolledBack(changes []change) ([]change, error) {
	if !slices.ContainsFunc(changes, func(c change) bool { return c.now != nil && c.now.Spec.RollbackTo != nil }) {
		return changes, nil
	}
	var out []change
	for _, c := range changes {
		if c.now == nil || c.now.Spec.RollbackTo == nil {
			out = append(out, c)
			continue
		}
		number := c.now.Spec.RollbackTo.Revision
		h.mu.Lock()
		r := h.previous.Find(c.now.Spec.Bundle, number)
		h.mu.Unlock()
		if r == nil {
			return nil, fmt.Errorf("plugin bundle %s has no former revision %s; status.previous lists those that it has", c.now.Spec.Bundle, orLast(number))
		}
		for _, name := range r.Names() {
			if name == c.name {
				out = append(out, change{name: name, old: h.inForce(name), now: revert(c.now, r)})
				continue
			}
			// One that a version in between had not is back as configured.
			if o := h.objects.of(name); o != nil && o.Spec.Bundle == c.now.Spec.Bundle {
				out = append(out, change{name: name, old: h.inForce(name), now: revert(o, r)})
			}
		}
	}
	return out, nil
}

func orLast(number int64) string {
	if number == 0 {
		return "to go back to"
	}
	return fmt.Sprint(number)
}

// revert is an object with the spec that a revision had of it. What was not narrowed
// then is what the version's manifest asks for.
func revert(o *v1alpha1.Plugin, r *history.Revision) *v1alpha1.Plugin {
	o = o.DeepCopy()
	was, s := r.Plugins[o.Name], &o.Spec
	s.RollbackTo = nil
	s.Transport, s.Version, s.Digest = "", r.Version.Version, r.Version.Digest // the digest says which transport
	s.HostFunctions = slices.Clone(r.HostFunctions)
	s.Config, s.Permissions, s.AdmissionRules = was.Config.DeepCopy(), slices.Clone(was.Permissions), slices.Clone(was.AdmissionRules)
	if last, remembers := configuredOf(o); remembers {
		last = maps.Clone(last)
		delete(last, "permissions")
		delete(last, "admissionRules")
		if text, err := json.Marshal(last); err == nil {
			o.Annotations[v1alpha1.ConfiguredAnnotation] = string(text)
		}
	}
	return o
}

// of is the object of a plugin as it was last seen; nil: there is none.
func (o *objects) of(name string) *v1alpha1.Plugin {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.seen[name]; t != nil {
		return t.known
	}
	return nil
}

// followBundle has the other plugins of a bundle whose specs were refused go with a change
// of the bundle that was not: what they ask of the bundle is not asked any more, and
// the rest is tried again. applyMu is held.
func (h *Host) followBundle(changes []change, refusals map[string]*refusal) {
	turned := map[string]bool{}
	changed := map[string]bool{}
	for _, c := range changes {
		changed[c.name] = true
		if c.now == nil || c.old == nil || refusals[c.name] != nil {
			continue
		}
		before, after := fieldsOf(&c.old.Spec), fieldsOf(&c.now.Spec)
		turned[c.now.Spec.Bundle] = turned[c.now.Spec.Bundle] || c.now.Spec.RollbackTo != nil ||
			slices.ContainsFunc(wideFields, func(name string) bool { return !before.same(after, name) })
	}
	var others []change
	h.objects.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(h.objects.seen)) {
		t, old := h.objects.seen[name], h.inForce(name)
		if changed[name] || t.refusal == nil || t.known == nil || t.known != t.settled || old == nil || !turned[t.known.Spec.Bundle] {
			continue
		}
		now := t.known.DeepCopy()
		fieldsOf(&old.Spec).into(&now.Spec, wideFields)
		others = append(others, change{name: name, old: old, now: now})
	}
	h.objects.mu.Unlock()
	for _, c := range others {
		if _, refused := h.lay(h.present(), []change{c}, h.apply); len(refused) > 0 {
			continue
		}
		c.now = h.objects.of(c.name) // what is written there is made what is in force
		h.settleObjects([]change{c}, nil)
	}
}
