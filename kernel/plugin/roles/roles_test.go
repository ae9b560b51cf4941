package roles

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func rule(resource string, verbs ...string) v1alpha1.PluginPermission {
	return v1alpha1.PluginPermission{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}}
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
	left, leftBound := rbac.PluginPolicy("gone", []rbacv1.PolicyRule{rule("secrets", "*").PolicyRule})
	stray := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: rbac.PluginRolePrefix + "stray"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}}
	other := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view"}, Rules: []rbacv1.PolicyRule{rule("pods", "get").PolicyRule}}
	// Somebody bound the plugin's name to more than its role.
	_, wide := rbac.PluginPolicy("a", nil)
	wide.RoleRef.Name = "cluster-admin"
	client := fake.NewSimpleClientset(left, leftBound, stray, other, wide)
	w := New(client)
	both := Grants{"a": {"controller", []v1alpha1.PluginPermission{rule("pods", "get", "list")}}, "b": {"pre-bind", []v1alpha1.PluginPermission{rule("nodes", "get")}}}
	for _, step := range []struct {
		what   string
		grants Grants
		others []string
		verbs  map[string][]string
		bound  []string
	}{
		{"at the start", both, nil, map[string][]string{"view": {"get"}, "pintle:plugin:a": {"get", "list"}, "pintle:plugin:b": {"get"}}, []string{"pintle:plugin:a", "pintle:plugin:b"}},
		{
			"narrowed", Grants{"a": {"controller", []v1alpha1.PluginPermission{rule("pods", "get")}}, "b": both["b"]}, nil,
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
	w, grants := New(client), Grants{"a": {"controller", []v1alpha1.PluginPermission{rule("pods", "get")}}}
	for range 2 {
		if err := w.Write(t.Context(), grants); err != nil {
			t.Fatal(err)
		}
		if err := w.Withdraw(t.Context(), grants, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(client.Actions()); n != 7 {
		t.Errorf("%d requests, want 7: get and create both, list all three kinds", n)
	}
}

// inNamespaces are the roles that are bound to their plugin, by namespace and name.
func inNamespaces(t *testing.T, client *fake.Clientset) (out []string) {
	t.Helper()
	bindings, err := client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		if b.Name == "mine" {
			continue // what it gives is looked at apart
		}
		role, err := client.RbacV1().ClusterRoles().Get(t.Context(), b.RoleRef.Name, metav1.GetOptions{})
		if err != nil || b.RoleRef.Kind != "ClusterRole" || len(b.Subjects) != 1 || b.Subjects[0].Kind != rbacv1.UserKind {
			t.Errorf("binding %s/%s of %+v to %+v: %v", b.Namespace, b.Name, b.Subjects, b.RoleRef, err)
			continue
		}
		for _, r := range role.Rules {
			out = append(out, b.Namespace+" "+b.Subjects[0].Name+" "+strings.Join(r.Verbs, ","))
		}
	}
	slices.Sort(out)
	return out
}

func in(namespace string, rule v1alpha1.PluginPermission) v1alpha1.PluginPermission {
	rule.Namespace = namespace
	return rule
}

// Rules of a namespace are bound there, and nowhere else. One that waits for its
// namespace holds nothing up. What somebody put in its place is put right.
func TestRolesOfNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, leftBound := rbac.PluginNamespacePolicy("gone", "kube-system", []rbacv1.PolicyRule{rule("secrets", "*").PolicyRule})
		// An owner of a namespace was there before, with a role and a binding of the
		// plugin's names, and another binding to that role.
		planted := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pintle:plugin:a", Namespace: "kube-public"}, Rules: []rbacv1.PolicyRule{rule("pods", "get").PolicyRule}}
		_, plantedBound := rbac.PluginNamespacePolicy("a", "kube-public", nil)
		plantedBound.RoleRef.Name = "cluster-admin"
		plantedBound.Subjects[0].Name = "mallory"
		mine := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "mine", Namespace: "kube-public"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: planted.Name}, Subjects: plantedBound.Subjects}
		other := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pintle", Namespace: "kube-system"}}
		client := fake.NewClientset(left, leftBound, planted, plantedBound, mine, other)
		absent := map[string]bool{"later": true}
		client.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if absent[a.GetNamespace()] {
				return true, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, a.GetNamespace())
			}
			return false, nil, nil
		})
		w := New(client)
		grants := Grants{
			"a": {"controller", []v1alpha1.PluginPermission{rule("nodes", "get"), in("kube-public", rule("configmaps", "update")), in("later", rule("pods", "list"))}},
			"b": {"controller", []v1alpha1.PluginPermission{in("kube-system", rule("secrets", "list")), in("kube-system", rule("secrets", "delete"))}},
		}
		write := func(what string, want ...string) {
			t.Helper()
			if err := w.Write(t.Context(), grants); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if err := w.Withdraw(t.Context(), grants, nil); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := inNamespaces(t, client); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		a, b := rbac.PluginUser("a"), rbac.PluginUser("b")
		write("a namespace is not there", "kube-public "+a+" update", "kube-system "+b+" delete", "kube-system "+b+" list")
		if r, err := client.RbacV1().Roles("kube-public").Get(t.Context(), planted.Name, metav1.GetOptions{}); err != nil || len(r.Rules) != 1 || r.Rules[0].Resources[0] != "pods" {
			t.Errorf("what an owner of the namespace made and bound has now %+v, %v", r, err)
		}
		verbs, bound := there(t, client)
		if !slices.Equal(verbs["pintle:plugin:a"], []string{"get"}) || verbs["pintle:plugin:b"] != nil || !slices.Equal(bound, []string{"pintle:plugin:a"}) {
			t.Errorf("in the whole cluster: %v, bound %v", verbs, bound)
		}
		delete(absent, "later")
		write("it is there now", "kube-public "+a+" update", "kube-system "+b+" delete", "kube-system "+b+" list", "later "+a+" list")
		// It is deleted with its binding, and made again.
		if err := client.RbacV1().RoleBindings("later").Delete(t.Context(), "pintle:plugin:a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		before := len(client.Actions())
		if err := w.Write(t.Context(), grants); err != nil || len(client.Actions()) != before {
			t.Errorf("%d requests within the half minute, %v", len(client.Actions())-before, err)
		}
		time.Sleep(lookEvery)
		write("made again", "kube-public "+a+" update", "kube-system "+b+" delete", "kube-system "+b+" list", "later "+a+" list")
		grants = Grants{"a": grants["a"], "b": {"controller", []v1alpha1.PluginPermission{in("kube-system", rule("secrets", "list"))}}}
		write("narrowed", "kube-public "+a+" update", "kube-system "+b+" list", "later "+a+" list")
		grants = Grants{"b": grants["b"]}
		write("one is gone", "kube-system "+b+" list")
		grants = nil
		write("both are gone")
		if _, err := client.RbacV1().Roles("kube-system").Get(t.Context(), "pintle", metav1.GetOptions{}); err != nil {
			t.Errorf("a role of others: %v", err)
		}
	})
}

// A namespace that ends takes no new binding; other errors are returned.
func TestRolesOfEndingNamespaces(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		told bool
	}{
		"terminating": {&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: 403, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}, false},
		"forbidden":   {apierrors.NewForbidden(rbacv1.Resource("rolebindings"), "x", errors.New("no")), true},
	} {
		client := fake.NewClientset()
		client.PrependReactor("create", "rolebindings", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
		err := New(client).Write(t.Context(), Grants{"a": {"controller", []v1alpha1.PluginPermission{in("x", rule("pods", "get"))}}})
		if (err != nil) != tt.told {
			t.Errorf("%s: %v", name, err)
		}
	}
}
