package plugin

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// An operator takes rights away by the Plugin object, and gives none.
func TestPermissionsAreTightened(t *testing.T) {
	asked := []manifest.Rule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "list", "create"}}}
	rule := func(resource string, verbs ...string) v1alpha1.PluginPermission {
		return v1alpha1.PluginPermission{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}}
	}
	tests := map[string]struct {
		object  []v1alpha1.PluginPermission
		want    []v1alpha1.PluginPermission
		refused int
	}{
		"nothing said":     {nil, manifest.Permissions(asked), 0},
		"less":             {[]v1alpha1.PluginPermission{rule("configmaps", "get")}, []v1alpha1.PluginPermission{rule("configmaps", "get")}, 0},
		"another verb":     {[]v1alpha1.PluginPermission{rule("configmaps", "get"), rule("configmaps", "delete")}, []v1alpha1.PluginPermission{rule("configmaps", "get")}, 1},
		"another resource": {[]v1alpha1.PluginPermission{rule("secrets", "get"), rule("pods", "get")}, []v1alpha1.PluginPermission{rule("secrets", "get")}, 1},
		"everything":       {[]v1alpha1.PluginPermission{rule("*", "*")}, nil, 1},
		"the same, in two": {[]v1alpha1.PluginPermission{rule("secrets", "get", "list"), rule("configmaps", "create")}, []v1alpha1.PluginPermission{rule("secrets", "get", "list"), rule("configmaps", "create")}, 0},
		"of one object by name": {[]v1alpha1.PluginPermission{{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}}}},
			[]v1alpha1.PluginPermission{{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}}}}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := &manifest.Manifest{Name: "b", Plugins: []manifest.Entry{{Name: "c", Kind: sdk.KindController, Rules: asked}}}
			spec := &v1alpha1.PluginSpec{Bundle: "b", Kind: v1alpha1.PluginKindController, Permissions: test.object}
			if list := vetPermissions(m, &m.Plugins[0], spec, nil); len(list) != test.refused {
				t.Errorf("refused %v, want %d rules", list, test.refused)
			}
			if got := granting(m, spec).grants()["c"].Rules; !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("rules %v, want %v", got, test.want)
			}
		})
	}
}

// granting is a plan in which the controller c of a bundle is in use.
func granting(m *manifest.Manifest, spec *v1alpha1.PluginSpec) *plan {
	return &plan{
		units: []*unit{{bundle: &manifest.Bundle{Manifest: m}, active: true}}, cfg: Config{Controllers: []string{"c"}},
		specs: map[string]*v1alpha1.PluginSpec{"c": spec},
	}
}

// What the bundle as a whole asks for is narrowed with what its plugins ask for,
// nobody has rights whose plugin is not in use, and a predicate beside a
// controller has none of the informers' rights.
func TestPermissionsOfTheBundle(t *testing.T) {
	rule := func(resource string, verbs ...string) manifest.Rule {
		return manifest.Rule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	m := &manifest.Manifest{
		Name: "b", Rules: []manifest.Rule{rule("secrets", "list", "watch"), rule("pods", "list", "watch")},
		Plugins: []manifest.Entry{
			{Name: "c", Kind: sdk.KindController, Rules: []manifest.Rule{rule("events", "create")}},
			{Name: "d", Kind: sdk.KindController, Rules: []manifest.Rule{rule("nodes", "delete")}},
			{Name: "p", Kind: sdk.KindPredicate, Rules: []manifest.Rule{rule("nodes", "get")}},
		},
	}
	p := granting(m, &v1alpha1.PluginSpec{Permissions: manifest.Permissions([]manifest.Rule{rule("pods", "list"), rule("events", "create")})})
	check := func(what string, want map[string][]manifest.Rule) {
		t.Helper()
		got := p.grants()
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		for name, rules := range want {
			if !equality.Semantic.DeepEqual(got[name].Rules, manifest.Permissions(rules)) {
				t.Errorf("%s: %s may %v, want %v", what, name, got[name].Rules, rules)
			}
		}
	}
	check("narrowed", map[string][]manifest.Rule{"b": {rule("pods", "list")}, "c": {rule("events", "create")}})
	if list := vetPermissions(m, &m.Plugins[0], p.specs["c"], nil); len(list) > 0 {
		t.Errorf("rules of the bundle are refused: %v", list)
	}
	if list := vetPermissions(m, &m.Plugins[2], p.specs["c"], nil); len(list) != 2 {
		t.Errorf("a predicate is refused %v, want both rules, which it did not ask for", list)
	}
	p.cfg.Controllers = []string{"d"}
	check("another", map[string][]manifest.Rule{"b": m.Rules, "d": {rule("nodes", "delete")}})
	p.cfg.Controllers = nil
	check("none", nil)
	p.cfg.Profiles = []Profile{{Predicates: []string{"p"}}}
	check("a predicate", map[string][]manifest.Rule{"p": {rule("nodes", "get")}})
	p.units[0].active = false
	check("not in force", nil)
}

// What an operator took away stays away when the manifest asks for more later.
func TestPermissionsStayNarrowed(t *testing.T) {
	rules := func(verbs ...string) []v1alpha1.PluginPermission {
		return []v1alpha1.PluginPermission{{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}}}
	}
	configured := func(verbs ...string) fields {
		return fieldsOf(&v1alpha1.PluginSpec{Permissions: rules(verbs...)})
	}
	for _, c := range []struct {
		what string
		said []v1alpha1.PluginPermission
		want fields
	}{
		{"as configured", rules("get", "list"), configured("get", "list", "delete")},
		{"narrowed", rules("get"), configured("get")},
	} {
		o := &v1alpha1.Plugin{Spec: v1alpha1.PluginSpec{Permissions: c.said}}
		o.Annotations = map[string]string{v1alpha1.ConfiguredAnnotation: configured("get", "list").annotation()}
		if got := merge(configured("get", "list", "delete"), o); !got.same(c.want, "permissions") {
			t.Errorf("%s: %s, want %s", c.what, got["permissions"], c.want["permissions"])
		}
	}
}

// A version that asks for less can be turned to: what the object had gives nothing, and
// what it never had is refused.
func TestPermissionsOfAnotherVersion(t *testing.T) {
	rule := func(resource string) v1alpha1.PluginPermission {
		return v1alpha1.PluginPermission{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}
	}
	less := &manifest.Manifest{Name: "b", Plugins: []manifest.Entry{{Name: "c", Kind: sdk.KindController, Rules: []manifest.Rule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}}}
	spec := func(rules ...v1alpha1.PluginPermission) v1alpha1.PluginSpec {
		return v1alpha1.PluginSpec{Bundle: "b", Kind: v1alpha1.PluginKindController, Permissions: rules}
	}
	former := &v1alpha1.Plugin{Spec: spec(rule("configmaps"), rule("secrets"))}
	if list := vetPermissions(less, &less.Plugins[0], &former.Spec, former); len(list) > 0 {
		t.Errorf("a version that asks for less: %v", list)
	}
	more := spec(rule("configmaps"), rule("pods"))
	if list := vetPermissions(less, &less.Plugins[0], &more, former); len(list) != 1 {
		t.Errorf("a rule that nobody asked for: %v, want it refused", list)
	}
}

// A rule of one namespace gives nothing elsewhere, and a rule of the whole cluster may
// be left to a plugin in one namespace.
func TestPermissionsOfANamespace(t *testing.T) {
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}}
	pods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}
	urls := rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}
	in := func(namespace string, rule rbacv1.PolicyRule) v1alpha1.PluginPermission {
		return v1alpha1.PluginPermission{Namespace: namespace, PolicyRule: rule}
	}
	m := &manifest.Manifest{Name: "b", Plugins: []manifest.Entry{{Name: "c", Kind: sdk.KindController, Rules: []manifest.Rule{
		{Namespace: "kube-system", APIGroups: secrets.APIGroups, Resources: secrets.Resources, Verbs: secrets.Verbs},
		{APIGroups: pods.APIGroups, Resources: pods.Resources, Verbs: pods.Verbs}, {NonResourceURLs: urls.NonResourceURLs, Verbs: urls.Verbs},
	}}}}
	for name, test := range map[string]struct {
		said, want v1alpha1.PluginPermission
		refused    int
	}{
		"the same":                         {in("kube-system", secrets), in("kube-system", secrets), 0},
		"another namespace":                {in("default", secrets), v1alpha1.PluginPermission{}, 1},
		"the whole cluster":                {in("", secrets), v1alpha1.PluginPermission{}, 1},
		"one namespace of the cluster":     {in("default", pods), in("default", pods), 0},
		"the cluster":                      {in("", pods), in("", pods), 0},
		"what both rules of it allow, two": {in("kube-system", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "pods"}, Verbs: []string{"get"}}), in("kube-system", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "pods"}, Verbs: []string{"get"}}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.PluginSpec{Bundle: "b", Kind: v1alpha1.PluginKindController, Permissions: []v1alpha1.PluginPermission{test.said}}
			if list := vetPermissions(m, &m.Plugins[0], spec, nil); len(list) != test.refused {
				t.Errorf("refused %v, want %d rules", list, test.refused)
			}
			got := granting(m, spec).grants()["c"].Rules
			if len(got) != 1-test.refused || len(got) == 1 && !equality.Semantic.DeepEqual(got[0], test.want) {
				t.Errorf("rules %v, want %v", got, test.want)
			}
		})
	}
	if got := granting(m, nil).grants()["c"].Rules; len(got) != 3 || got[0].Namespace != "kube-system" {
		t.Errorf("nothing narrowed: %v", got)
	}
}
