package plugin

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// An operator takes rights away by the Plugin object, and gives none.
func TestPermissionsAreTightened(t *testing.T) {
	asked := []Rule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get", "list", "create"}}}
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	tests := map[string]struct {
		object  []rbacv1.PolicyRule
		want    []rbacv1.PolicyRule
		refused int
	}{
		"nothing said":     {nil, PolicyRules(asked), 0},
		"less":             {[]rbacv1.PolicyRule{rule("configmaps", "get")}, []rbacv1.PolicyRule{rule("configmaps", "get")}, 0},
		"another verb":     {[]rbacv1.PolicyRule{rule("configmaps", "get"), rule("configmaps", "delete")}, []rbacv1.PolicyRule{rule("configmaps", "get")}, 1},
		"another resource": {[]rbacv1.PolicyRule{rule("secrets", "get"), rule("pods", "get")}, []rbacv1.PolicyRule{rule("secrets", "get")}, 1},
		"everything":       {[]rbacv1.PolicyRule{rule("*", "*")}, nil, 1},
		"the same, in two": {[]rbacv1.PolicyRule{rule("secrets", "get", "list"), rule("configmaps", "create")}, []rbacv1.PolicyRule{rule("secrets", "get", "list"), rule("configmaps", "create")}, 0},
		"of one object by name": {[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}}},
			[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}, Verbs: []string{"get"}}}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			u := &unit{bundle: &Bundle{Manifest: &Manifest{Name: "b", Plugins: []Entry{{Name: "c", Kind: sdk.KindController, Rules: asked}}}}}
			spec := &v1alpha1.PluginSpec{Bundle: "b", Kind: v1alpha1.PluginKindController, Permissions: test.object}
			p := &plan{units: []*unit{u}, specs: map[string]*v1alpha1.PluginSpec{"c": spec}}
			if list := vetPermissions(&u.bundle.Manifest.Plugins[0], spec); len(list) != test.refused {
				t.Errorf("refused %v, want %d rules", list, test.refused)
			}
			client := fake.NewSimpleClientset()
			api := &publisher{client: client}
			if err := api.permissions(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []rbacv1.PolicyRule
			if len(roles.Items) > 0 {
				got = roles.Items[0].Rules
			}
			if !equality.Semantic.DeepEqual(got, test.want) {
				t.Errorf("rules %v, want %v", got, test.want)
			}
		})
	}
}

// A role that was written follows what an operator takes away, and gives back.
func TestPermissionsFollowTheObject(t *testing.T) {
	u := &unit{bundle: &Bundle{Manifest: &Manifest{Name: "b", Plugins: []Entry{{Name: "c", Kind: sdk.KindController, Rules: []Rule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}}}}}}}
	client := fake.NewSimpleClientset()
	api := &publisher{client: client}
	for _, verbs := range [][]string{{"get", "list"}, {"get"}, {"get", "list"}, {"delete"}} {
		spec := &v1alpha1.PluginSpec{Permissions: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}}}
		want := spec.Permissions
		if verbs[0] == "delete" {
			want = nil // the manifest does not ask for it
		}
		if err := api.permissions(t.Context(), &plan{units: []*unit{u}, specs: map[string]*v1alpha1.PluginSpec{"c": spec}}); err != nil {
			t.Fatal(err)
		}
		roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(roles.Items) != 1 || !equality.Semantic.DeepEqual(roles.Items[0].Rules, want) {
			t.Errorf("roles %+v, want %v", roles.Items, want)
		}
	}
}
