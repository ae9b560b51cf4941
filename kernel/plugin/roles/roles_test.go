package roles

import (
	"maps"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/kernel/api/auth/rbac"
)

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

// there is what the API has: verbs by role, and the names of bindings.
func there(t *testing.T, client *fake.Clientset) (verbs map[string][]string, bound []string) {
	t.Helper()
	verbs = map[string][]string{}
	roles, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range roles.Items {
		verbs[roles.Items[i].Name] = nil
		for _, r := range roles.Items[i].Rules {
			verbs[roles.Items[i].Name] = append(verbs[roles.Items[i].Name], r.Verbs...)
		}
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range bindings.Items {
		bound = append(bound, bindings.Items[i].Name)
	}
	slices.Sort(bound)
	return verbs, bound
}

// Roles are those of the grants and no others: a version that asks for less
// narrows its role, who is gone has none, and neither has who was there under an
// earlier version of the kernel. What is not a plugin's stays.
func TestRolesEndWithTheirPlugins(t *testing.T) {
	left, leftBound := rbac.PluginPolicy("gone", []rbacv1.PolicyRule{rule("secrets", "*")})
	stray := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: rbac.PluginRolePrefix + "stray"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}}
	other := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{rule("pods", "get")}}
	// Somebody bound the plugin's name to more than its role.
	_, wide := rbac.PluginPolicy("a", nil)
	wide.RoleRef.Name = "cluster-admin"
	client := fake.NewSimpleClientset(left, leftBound, stray, other, wide)
	w := New(client)
	both := Grants{"a": {"controller", []rbacv1.PolicyRule{rule("pods", "get", "list")}}, "b": {"pre-bind", []rbacv1.PolicyRule{rule("nodes", "get")}}}
	for _, step := range []struct {
		what   string
		grants Grants
		others []string
		verbs  map[string][]string
		bound  []string
	}{
		{"at the start", both, nil, map[string][]string{"view": {"get"}, "pintle:plugin:a": {"get", "list"}, "pintle:plugin:b": {"get"}}, []string{"pintle:plugin:a", "pintle:plugin:b"}},
		{
			"narrowed", Grants{"a": {"controller", []rbacv1.PolicyRule{rule("pods", "get")}}, "b": both["b"]}, nil,
			map[string][]string{"view": {"get"}, "pintle:plugin:a": {"get"}, "pintle:plugin:b": {"get"}}, []string{"pintle:plugin:a", "pintle:plugin:b"},
		},
		{"another kernel's", Grants{}, []string{"pre-bind"}, map[string][]string{"view": {"get"}, "pintle:plugin:b": {"get"}}, []string{"pintle:plugin:b"}},
		{"none of its rules left", Grants{"b": {"pre-bind", nil}}, nil, map[string][]string{"view": {"get"}}, nil},
		{"again", both, nil, map[string][]string{"view": {"get"}, "pintle:plugin:a": {"get", "list"}, "pintle:plugin:b": {"get"}}, []string{"pintle:plugin:a", "pintle:plugin:b"}},
	} {
		if err := w.Write(t.Context(), step.grants); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if err := w.Withdraw(t.Context(), step.grants, step.others); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		verbs, bound := there(t, client)
		if !maps.EqualFunc(verbs, step.verbs, slices.Equal[[]string]) || !slices.Equal(bound, step.bound) {
			t.Errorf("%s: roles %v bound %v, want %v bound %v", step.what, verbs, bound, step.verbs, step.bound)
		}
	}
	b, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), "pintle:plugin:a", metav1.GetOptions{})
	if err != nil || b.RoleRef.Name != "pintle:plugin:a" || len(b.Subjects) != 1 || b.Subjects[0].Name != rbac.PluginUser("a") {
		t.Errorf("binding %+v, %v: want it to the plugin's own role", b, err)
	}
}

// What was written is not written again.
func TestRolesAreWrittenOnce(t *testing.T) {
	client := fake.NewSimpleClientset()
	w, grants := New(client), Grants{"a": {"controller", []rbacv1.PolicyRule{rule("pods", "get")}}}
	for range 2 {
		if err := w.Write(t.Context(), grants); err != nil {
			t.Fatal(err)
		}
		if err := w.Withdraw(t.Context(), grants, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(client.Actions()); n != 6 {
		t.Errorf("%d requests, want 6: get and create both, list both", n)
	}
}
