package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PluginUser is the user name of the plugin called name.
func PluginUser(name string) string { return "system:pintle:plugin:" + name }

// PluginRolePrefix begins the names of the ClusterRoles of plugins, and of their
// bindings. The kernel deletes those of that name that no plugin in force has.
const PluginRolePrefix = "pintle:plugin:"

// PluginPolicy turns the rules of a plugin's manifest into the ClusterRole
// pintle:plugin:NAME and its binding to the plugin's user. The kernel writes
// both as they are: a rule that is no longer in the manifest is gone.
func PluginPolicy(name string, rules []rbacv1.PolicyRule) (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	object := metav1.ObjectMeta{
		Name:   PluginRolePrefix + name,
		Labels: map[string]string{"kernel.pintle.dev/plugin": name},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: object}
	for i := range rules {
		role.Rules = append(role.Rules, *rules[i].DeepCopy())
	}
	return role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: *object.DeepCopy(),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: object.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: PluginUser(name)}},
	}
}

// PluginNamespacePolicy turns rules that count in one namespace into the ClusterRole
// pintle:plugin:NAME:NAMESPACE and the RoleBinding pintle:plugin:NAME in the namespace.
//
// A Role will not do: an owner of the namespace could make and bind one of its name
// before, and would have the plugin's rights by that binding.
func PluginNamespacePolicy(name, namespace string, rules []rbacv1.PolicyRule) (*rbacv1.ClusterRole, *rbacv1.RoleBinding) {
	role, binding := PluginPolicy(name, rules)
	role.Name += ":" + namespace
	binding.Namespace, binding.RoleRef.Name = namespace, role.Name
	return role, &rbacv1.RoleBinding{ObjectMeta: binding.ObjectMeta, RoleRef: binding.RoleRef, Subjects: binding.Subjects}
}

func fullAuthority() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
		{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
	}
}

func isFullAuthority(r rbacv1.PolicyRule) bool {
	return slices.ContainsFunc(fullAuthority(), func(full rbacv1.PolicyRule) bool {
		return equality.Semantic.DeepEqual(r, full)
	})
}
