package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/admissionrules"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/observe"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// reviewFactor: a review, which decodes and encodes whole objects, may last
	// this many times a call.
	reviewFactor = 10
)

// Admission is an admission plugin that is in use: the configuration or a Plugin
// object enables it.
type Admission struct {
	name   string
	unit   *unit  // nil: it is wished for and does not run
	absent string // why
	index  int
	phase  string
	// It is asked about what it describes, its manifest asks for and the operator
	// leaves; granted is nil where that is all.
	described, asked, granted []admissionrules.Rule
	ignore                    bool
}

// absentError says why an admission plugin that is in use cannot be asked.
type absentError struct{ error }

// Unavailable tells the API that it is not the request's fault.
func (absentError) Unavailable() bool { return true }

// Admissions are the admission plugins in use: those of the configuration in its
// order, then those of Plugin objects, and at last those that an object asks for
// and that cannot be had, which refuse what they would be asked. Not ok: it is not
// known yet, and there may be some.
func (h *Host) Admissions() (list []*Admission, ok bool) {
	if p := h.admissions.Load(); p != nil {
		return *p, true
	}
	return nil, h.unreviewed.Load() && len(h.present().cfg.Admission) == 0
}

// Recall is told the Plugin objects as they are stored, before anybody is served:
// where none of them asks for an admission plugin, nobody has to wait for one.
func (h *Host) Recall(list []v1alpha1.Plugin) {
	h.unreviewed.Store(!slices.ContainsFunc(list, func(o v1alpha1.Plugin) bool {
		return o.Spec.Kind == v1alpha1.PluginKindAdmission && ptr.Deref(o.Spec.Enabled, true)
	}))
}

// asksForReview reports whether an object enables an admission plugin on its own
// account: what only repeats the configuration ends with that.
func asksForReview(o *v1alpha1.Plugin) bool {
	if o == nil || o.Spec.Kind != v1alpha1.PluginKindAdmission || !ptr.Deref(o.Spec.Enabled, true) {
		return false
	}
	last, _ := configuredOf(o)
	return string(last["enabled"]) != "true"
}

// grantedRules are those of a spec; nil: it leaves what the manifest asks for.
func grantedRules(spec *v1alpha1.PluginSpec) []admissionrules.Rule {
	if spec == nil {
		return nil
	}
	var list []admissionrules.Rule
	for _, r := range spec.AdmissionRules {
		list = append(list, admissionrules.Rule{Operations: r.Operations, Resources: r.Resources})
	}
	return list
}

// objectRules are a manifest's rules in the API's form.
func objectRules(rules []admissionrules.Rule) []v1alpha1.PluginAdmissionRule {
	var list []v1alpha1.PluginAdmissionRule
	for _, r := range rules {
		list = append(list, v1alpha1.PluginAdmissionRule{Operations: r.Operations, Resources: r.Resources})
	}
	return list
}

// newAdmissions are the admission plugins of a plan whose units have started.
func (h *Host) newAdmissions(p *plan) ([]*Admission, error) {
	list := []*Admission{}
	for _, name := range p.cfg.Admission {
		u, e := holder(p.units, name, sdk.KindAdmission)
		if u == nil {
			return nil, known(p.units, name, sdk.KindAdmission, "admission.enabled")
		}
		u.mu.Lock()
		d, i := u.described[name], u.index[name]
		u.mu.Unlock()
		if d == nil {
			return nil, fmt.Errorf("plugin %s: %w", name, u.unavailable())
		}
		list = append(list, &Admission{
			name: name, unit: u, index: i, phase: e.Phase, ignore: p.ignores(u, e),
			described: manifest.DescribedRules(d), asked: e.AdmissionRules, granted: grantedRules(p.specs[name]),
		})
	}
	return append(list, h.absentAdmissions(p)...), nil
}

// absentAdmissions stand for the admission plugins that objects ask for and that
// the plan does not have: what they would be asked about is refused, and not let
// through.
func (h *Host) absentAdmissions(p *plan) []*Admission {
	h.objects.mu.Lock()
	defer h.objects.mu.Unlock()
	var list []*Admission
	for _, name := range slices.Sorted(maps.Keys(h.objects.seen)) {
		t := h.objects.seen[name]
		if !asksForReview(t.known) || slices.Contains(p.cfg.Admission, name) || p.specs[name] != nil && t.refusal == nil && !p.foreign(t.known) {
			continue
		}
		why := "its bundle " + t.known.Spec.Bundle + " is not loaded"
		if t.refusal != nil {
			why = t.refusal.message
		}
		list = append(list, &Admission{
			name: name, absent: "it is enabled and not in force: " + why + "; mend that, or disable it with pintle plugin disable " + name,
			phase: sdk.PhaseValidating, described: admissionrules.All(), granted: grantedRules(&t.known.Spec), ignore: t.known.Spec.OnFailure == v1alpha1.PluginFailureIgnore,
		})
	}
	return list
}

// renewAdmissions notes which admission plugins are absent now.
func (h *Host) renewAdmissions() {
	before := h.admissions.Load()
	if before == nil {
		return // the start makes the first
	}
	list := slices.DeleteFunc(slices.Clone(*before), func(a *Admission) bool { return a.unit == nil })
	list = append(list, h.absentAdmissions(h.present())...)
	h.admissions.Store(&list)
}

// Name is the plugin's.
func (a *Admission) Name() string { return a.name }

// Mutates reports whether the plugin may change objects.
func (a *Admission) Mutates() bool { return a.phase == sdk.PhaseMutating }

// IgnoresFailure reports whether a plugin that cannot answer is left out.
func (a *Admission) IgnoresFailure() bool { return a.ignore }

// Matches reports whether the plugin is asked about a request.
func (a *Admission) Matches(operation, group, version, resource, subresource string) bool {
	r := admissionrules.Request{Operation: operation, Group: group, Version: version, Resource: resource, Subresource: subresource}
	return admissionrules.Ask(a.described, r) && (a.unit == nil || admissionrules.Ask(a.asked, r)) && (a.granted == nil || admissionrules.Ask(a.granted, r))
}

// Review asks the plugin about an AdmissionRequest of admission.k8s.io/v1 and
// returns its AdmissionResponse, both as JSON. It may be called from several
// goroutines.
func (a *Admission) Review(ctx context.Context, request []byte) ([]byte, error) {
	if a.unit == nil {
		return nil, absentError{errors.New(a.absent)}
	}
	ctx, cancel := context.WithTimeout(ctx, a.unit.call*reviewFactor)
	defer cancel()
	began := time.Now()
	asking, span := a.unit.span(ctx, a.name, "review")
	response, err := a.review(asking, request)
	if err == nil && len(response) > wasm.MaxReview {
		err = fmt.Errorf("an answer of %d bytes; at most %d are taken", len(response), wasm.MaxReview)
	}
	observe.EndSpan(span, err)
	s := a.unit.stats[a.name]
	s.record(time.Since(began), err)
	if err != nil && s.failed(err, time.Now()) {
		a.unit.log.Warn("admission plugin did not answer", "name", a.name, "error", err)
	}
	return response, err
}

func (a *Admission) review(ctx context.Context, request []byte) ([]byte, error) {
	a.unit.mu.Lock()
	g := a.unit.guest
	a.unit.mu.Unlock()
	if r, ok := g.(guest.Reviewer); ok {
		return r.Review(ctx, a.index, a.name, request, a.unit.call*reviewFactor)
	}
	return nil, a.unit.unavailable()
}
