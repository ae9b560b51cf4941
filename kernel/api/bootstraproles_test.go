package api_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/auth/rbac/validation"

	"pintle.dev/pintle/kernel/api/auth/pki"
)

// ownRoles are the roles and bindings that Pintle makes beside kube-apiserver's, with the reason.
var ownRoles = map[string]string{
	"ClusterRoleBinding " + pki.ClusterAdminsGroup: "the group of admin.kubeconfig, as kubeadm:cluster-admins is kubeadm's",
	"ClusterRoleBinding system:kubelet-api-admin":  "the API server's own certificate towards node agents, which kubeadm has in system:masters",
}

// The roles and bindings of a first start are those that kube-apiserver makes,
// in every field that it sets, and those of ownRoles.
func TestBootstrapRoles(t *testing.T) {
	data, err := os.ReadFile("testdata/peer/bootstrap-roles.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		ClusterRoles        []rbacv1.ClusterRole
		ClusterRoleBindings []rbacv1.ClusterRoleBinding
		Roles               []rbacv1.Role
		RoleBindings        []rbacv1.RoleBinding
	}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	for _, o := range recorded.ClusterRoles {
		want["ClusterRole "+o.Name] = shown(o.ObjectMeta, withoutGathered(o))
	}
	for _, o := range recorded.ClusterRoleBindings {
		want["ClusterRoleBinding "+o.Name] = shown(o.ObjectMeta, o.RoleRef, o.Subjects)
	}
	for _, o := range recorded.Roles {
		want["Role "+o.Namespace+"/"+o.Name] = shown(o.ObjectMeta, o.Rules)
	}
	for _, o := range recorded.RoleBindings {
		want["RoleBinding "+o.Namespace+"/"+o.Name] = shown(o.ObjectMeta, o.RoleRef, o.Subjects)
	}
	if len(want) < 133 {
		t.Fatalf("%d roles and bindings are recorded", len(want))
	}
	have := rolesOf(t.Context(), t, overTLS(t, start(t, t.TempDir())))
	for name, reason := range ownRoles {
		if _, ok := have[name]; !ok {
			t.Errorf("%s is not there: %s", name, reason)
		}
		if _, ok := want[name]; ok {
			t.Errorf("%s is upstream's too", name)
		}
		delete(have, name)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := have[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if !equality.Semantic.DeepEqual(want[name], have[name]) {
			theirs, _ := json.Marshal(want[name])
			ours, _ := json.Marshal(have[name])
			t.Errorf("%s\nof kube-apiserver: %s\nof Pintle:         %s", name, theirs, ours)
		}
		delete(have, name)
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		t.Errorf("%s is not kube-apiserver's; give the reason in ownRoles", name)
	}
}

// rolesOf gives what a server has, by kind and name.
func rolesOf(ctx context.Context, t *testing.T, c kubernetes.Interface) map[string]any {
	t.Helper()
	out, err := allRoles(ctx, c.RbacV1())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func allRoles(ctx context.Context, c rbacclient.RbacV1Interface) (map[string]any, error) {
	out, all := map[string]any{}, metav1.ListOptions{}
	clusterRoles, err := c.ClusterRoles().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range clusterRoles.Items {
		out["ClusterRole "+o.Name] = shown(o.ObjectMeta, withoutGathered(o))
	}
	clusterBindings, err := c.ClusterRoleBindings().List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range clusterBindings.Items {
		out["ClusterRoleBinding "+o.Name] = shown(o.ObjectMeta, o.RoleRef, o.Subjects)
	}
	roles, err := c.Roles("").List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range roles.Items {
		out["Role "+o.Namespace+"/"+o.Name] = shown(o.ObjectMeta, o.Rules)
	}
	bindings, err := c.RoleBindings("").List(ctx, all)
	if err != nil {
		return nil, err
	}
	for _, o := range bindings.Items {
		out["RoleBinding "+o.Namespace+"/"+o.Name] = shown(o.ObjectMeta, o.RoleRef, o.Subjects)
	}
	return out, nil
}

// shown is what of an object is compared.
func shown(meta metav1.ObjectMeta, rest ...any) []any {
	return append([]any{meta.Labels, meta.Annotations}, rest...)
}

// withoutGathered leaves out the rules that aggregation puts into a role.
func withoutGathered(role rbacv1.ClusterRole) []any {
	if role.AggregationRule != nil {
		return []any{*role.AggregationRule}
	}
	return []any{role.Rules}
}

// A start gives default roles and bindings back what they lack, keeps what others
// added, and leaves alone those annotated autoupdate=false.
func TestBootstrapRolesReconciled(t *testing.T) {
	dir := t.TempDir()
	const (
		system    = metav1.NamespaceSystem
		lock      = "system::leader-locking-kube-scheduler"
		autoscale = "system:controller:horizontal-pod-autoscaler"
	)
	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"things"}}
	ann := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}
	var autoscaleRules, lockRules []rbacv1.PolicyRule
	steps := []struct {
		name string
		// change is done before the second start, check is the state after it.
		change rolesChange
		check  rolesCheck
	}{
		{"a cluster role lost its rules and got another", editClusterRole(autoscale, func(o *rbacv1.ClusterRole) {
			autoscaleRules, o.Rules = o.Rules, []rbacv1.PolicyRule{extra}
		}), clusterRoleHas(autoscale, func(o *rbacv1.ClusterRole) bool {
			return hasRule(o.Rules, extra) && covers(o.Rules, autoscaleRules)
		})},
		{"a cluster role lost its label and annotation", editClusterRole("system:basic-user", func(o *rbacv1.ClusterRole) {
			o.Labels, o.Annotations = map[string]string{"mine": "kept"}, nil
		}), clusterRoleHas("system:basic-user", func(o *rbacv1.ClusterRole) bool {
			return o.Labels["mine"] == "kept" && o.Labels["kubernetes.io/bootstrapping"] == "rbac-defaults" && o.Annotations[rbacv1.AutoUpdateAnnotationKey] == "true"
		})},
		{"an aggregated role lost its selector and got another", editClusterRole("view", func(o *rbacv1.ClusterRole) {
			o.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"mine": "kept"}}}
		}), clusterRoleHas("view", func(o *rbacv1.ClusterRole) bool { return len(o.AggregationRule.ClusterRoleSelectors) == 2 })},
		{"a cluster role is protected", editClusterRole("system:heapster", func(o *rbacv1.ClusterRole) {
			o.Rules, o.Annotations[rbacv1.AutoUpdateAnnotationKey] = nil, "false"
		}), clusterRoleHas("system:heapster", func(o *rbacv1.ClusterRole) bool { return len(o.Rules) == 0 })},
		{"a cluster role is gone", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			return c.ClusterRoles().Delete(ctx, "system:controller:job-controller", metav1.DeleteOptions{})
		}, asMade("ClusterRole system:controller:job-controller")},
		{"a binding lost its subject and got another", editClusterBinding(autoscale, func(o *rbacv1.ClusterRoleBinding) {
			o.Subjects = []rbacv1.Subject{ann}
		}), clusterBindingHas(autoscale, func(o *rbacv1.ClusterRoleBinding) bool {
			return len(o.Subjects) == 2 && slices.Contains(o.Subjects, ann) &&
				slices.Contains(o.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: "horizontal-pod-autoscaler"})
		})},
		{"a binding is protected", editClusterBinding("system:basic-user", func(o *rbacv1.ClusterRoleBinding) {
			o.Subjects, o.Annotations[rbacv1.AutoUpdateAnnotationKey] = nil, "false"
		}), clusterBindingHas("system:basic-user", func(o *rbacv1.ClusterRoleBinding) bool { return len(o.Subjects) == 0 })},
		{"a binding is of another role", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			return rebind(ctx, c, "system:discovery", "true", ann)
		}, clusterBindingHas("system:discovery", func(o *rbacv1.ClusterRoleBinding) bool {
			return o.RoleRef.Name == "system:discovery" && !slices.Contains(o.Subjects, ann) && len(o.Subjects) == 1
		})},
		{"a protected binding is of another role", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			return rebind(ctx, c, "system:kube-dns", "false", ann)
		}, clusterBindingHas("system:kube-dns", func(o *rbacv1.ClusterRoleBinding) bool { return o.RoleRef.Name == "view" && len(o.Subjects) == 1 })},
		{"a binding is gone", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			return c.ClusterRoleBindings().Delete(ctx, "system:controller:job-controller", metav1.DeleteOptions{})
		}, asMade("ClusterRoleBinding system:controller:job-controller")},
		{"a role lost a rule and got another", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			o, err := c.Roles(system).Get(ctx, lock, metav1.GetOptions{})
			if err != nil {
				return err
			}
			lockRules, o.Rules = o.Rules, []rbacv1.PolicyRule{o.Rules[0], extra}
			_, err = c.Roles(system).Update(ctx, o, metav1.UpdateOptions{})
			return err
		}, func(ctx context.Context, c rbacclient.RbacV1Interface, _ map[string]any) (bool, any, error) {
			o, err := c.Roles(system).Get(ctx, lock, metav1.GetOptions{})
			return err == nil && hasRule(o.Rules, extra) && covers(o.Rules, lockRules), o, err
		}},
		{"a role is gone", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			return c.Roles(metav1.NamespacePublic).Delete(ctx, "system:controller:bootstrap-signer", metav1.DeleteOptions{})
		}, asMade("Role kube-public/system:controller:bootstrap-signer")},
		{"a role binding lost a subject and got another", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			o, err := c.RoleBindings(system).Get(ctx, lock, metav1.GetOptions{})
			if err != nil {
				return err
			}
			o.Subjects = []rbacv1.Subject{o.Subjects[0], ann}
			_, err = c.RoleBindings(system).Update(ctx, o, metav1.UpdateOptions{})
			return err
		}, func(ctx context.Context, c rbacclient.RbacV1Interface, _ map[string]any) (bool, any, error) {
			o, err := c.RoleBindings(system).Get(ctx, lock, metav1.GetOptions{})
			return err == nil && len(o.Subjects) == 3 && slices.Contains(o.Subjects, ann), o, err
		}},
		{"a role binding is gone", func(ctx context.Context, c rbacclient.RbacV1Interface) error {
			return c.RoleBindings(metav1.NamespacePublic).Delete(ctx, "system:controller:bootstrap-signer", metav1.DeleteOptions{})
		}, asMade("RoleBinding kube-public/system:controller:bootstrap-signer")},
	}
	var first map[string]any
	t.Run("first", func(t *testing.T) {
		c := overTLS(t, start(t, dir))
		first = rolesOf(t.Context(), t, c)
		for _, step := range steps {
			if err := step.change(t.Context(), c.RbacV1()); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
		}
	})
	t.Run("second", func(t *testing.T) {
		c := overTLS(t, start(t, dir))
		now := rolesOf(t.Context(), t, c)
		if len(now) != len(first) {
			t.Errorf("%d roles and bindings, of %d", len(now), len(first))
		}
		for _, step := range steps {
			ok, got, err := step.check(t.Context(), c.RbacV1(), first)
			if err != nil || !ok {
				t.Errorf("%s: %v, %v", step.name, got, err)
			}
		}
	})
}

func hasRule(rules []rbacv1.PolicyRule, want rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, want) })
}

// covers says that rules give all that others do; what was missing comes back one verb a rule.
func covers(rules, others []rbacv1.PolicyRule) bool {
	all, _ := validation.Covers(rules, others)
	return all && len(others) > 0
}

type (
	rolesChange = func(context.Context, rbacclient.RbacV1Interface) error
	rolesCheck  = func(context.Context, rbacclient.RbacV1Interface, map[string]any) (bool, any, error)
)

func editClusterRole(name string, edit func(*rbacv1.ClusterRole)) rolesChange {
	return func(ctx context.Context, c rbacclient.RbacV1Interface) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			o, err := c.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			edit(o)
			_, err = c.ClusterRoles().Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
	}
}

func clusterRoleHas(name string, has func(*rbacv1.ClusterRole) bool) rolesCheck {
	return func(ctx context.Context, c rbacclient.RbacV1Interface, _ map[string]any) (bool, any, error) {
		o, err := c.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
		return err == nil && has(o), o, err
	}
}

func editClusterBinding(name string, edit func(*rbacv1.ClusterRoleBinding)) rolesChange {
	return func(ctx context.Context, c rbacclient.RbacV1Interface) error {
		o, err := c.ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(o)
		_, err = c.ClusterRoleBindings().Update(ctx, o, metav1.UpdateOptions{})
		return err
	}
}

func clusterBindingHas(name string, has func(*rbacv1.ClusterRoleBinding) bool) rolesCheck {
	return func(ctx context.Context, c rbacclient.RbacV1Interface, _ map[string]any) (bool, any, error) {
		o, err := c.ClusterRoleBindings().Get(ctx, name, metav1.GetOptions{})
		return err == nil && has(o), o, err
	}
}

// rebind makes a binding anew that gives a user the role view.
func rebind(ctx context.Context, c rbacclient.RbacV1Interface, name, autoupdate string, subject rbacv1.Subject) error {
	if err := c.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err := c.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: autoupdate}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{subject},
	}, metav1.CreateOptions{})
	return err
}

// asMade wants an object to be what it was after the first start.
func asMade(name string) rolesCheck {
	return func(ctx context.Context, c rbacclient.RbacV1Interface, first map[string]any) (bool, any, error) {
		now, err := allRoles(ctx, c)
		return err == nil && first[name] != nil && equality.Semantic.DeepEqual(now[name], first[name]), now[name], err
	}
}
