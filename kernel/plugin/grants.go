package plugin

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/roles"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// grants are what the plugins in use may do, and the bundles with a controller or cloud
// provider in use: as far as their manifests ask for it, and operators left it to them.
func (p *plan) grants() roles.Grants {
	out := roles.Grants{}
	for _, u := range p.units {
		if !u.active {
			continue
		}
		m := u.bundle.Manifest
		var shared []v1alpha1.PluginPermission
		for i := range m.Plugins {
			e := &m.Plugins[i]
			if !p.inUse(e) {
				continue
			}
			if len(e.Rules) > 0 {
				out[e.Name] = roles.Grant{Kind: e.Kind, Rules: p.left(e, e.Rules, false)}
			}
			if !sdk.ControllingKind(e.Kind) {
				continue
			}
			// What one of them is left all of them have, who share the informers.
			for _, rule := range p.left(e, m.Rules, true) {
				if !slices.ContainsFunc(shared, func(r v1alpha1.PluginPermission) bool {
					return r.Namespace == rule.Namespace && rbac.SameRule(&r.PolicyRule, &rule.PolicyRule)
				}) {
					shared = append(shared, rule)
				}
			}
		}
		if len(shared) > 0 {
			// A bundle and a plugin of it may have one name, and are one identity then.
			own := out[m.Name]
			out[m.Name] = roles.Grant{Kind: sdk.KindController, Rules: slices.Concat(shared, own.Rules)}
		}
	}
	return out
}

// leftKey identifies an answer of left. An entry and a spec do not change within a plan.
type leftKey struct {
	entry  *manifest.Entry
	spec   *v1alpha1.PluginSpec
	shared bool
}

// left returns the rules that an operator left to a plugin: of its own, or of those that
// the bundle asks for (shared). The grants of a plan are asked for every few seconds and
// comparing rules allocates megabytes, so each answer is computed once.
func (p *plan) left(e *manifest.Entry, asked []manifest.Rule, shared bool) []v1alpha1.PluginPermission {
	key := leftKey{e, p.specs[e.Name], shared}
	if rules, ok := p.rulesLeft.Load(key); ok {
		return rules.([]v1alpha1.PluginPermission)
	}
	rules := leftOf(manifest.Permissions(asked), key.spec)
	p.rulesLeft.Store(key, rules)
	return rules
}

// leftOf are those of the permissions in a spec that the rules asked for cover; without
// permissions it is all that was asked for.
func leftOf(asked []v1alpha1.PluginPermission, spec *v1alpha1.PluginSpec) []v1alpha1.PluginPermission {
	if spec == nil || len(spec.Permissions) == 0 {
		return asked
	}
	var left []v1alpha1.PluginPermission
	for _, rule := range spec.Permissions {
		if covers(asked, rule) {
			left = append(left, rule)
		}
	}
	return left
}

// covers says whether rules give all that one does. What counts in the whole cluster
// counts in each namespace.
func covers(rules []v1alpha1.PluginPermission, one v1alpha1.PluginPermission) bool {
	var there []rbacv1.PolicyRule
	for _, r := range rules {
		if r.Namespace == "" || r.Namespace == one.Namespace {
			there = append(there, r.PolicyRule)
		}
	}
	covered, _ := validation.Covers(there, []rbacv1.PolicyRule{one.PolicyRule})
	return covered
}
