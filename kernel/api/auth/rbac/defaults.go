package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Policy is a set of RBAC objects.
type Policy struct {
	ClusterRoles        []rbacv1.ClusterRole
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	Roles               []rbacv1.Role
	RoleBindings        []rbacv1.RoleBinding
}

// Defaults returns the default roles and bindings, labelled and annotated for
// automatic update as upstream's.
func Defaults() Policy {
	controllers := controllerRoles()
	policy := Policy{
		ClusterRoles:        slices.Concat(userRoles(), systemRoles(), certificateRoles(), controllers),
		ClusterRoleBindings: slices.Concat(clusterBindings(), controllerBindings(controllers)),
		Roles:               slices.Concat(namespaceRoles(), controllerNamespaceRoles()),
		RoleBindings:        slices.Concat(namespaceBindings(), controllerNamespaceBindings()),
	}
	for i := range policy.ClusterRoles {
		mark(&policy.ClusterRoles[i])
		policy.ClusterRoles[i].Rules = inOrder(policy.ClusterRoles[i].Rules)
	}
	for i := range policy.ClusterRoleBindings {
		mark(&policy.ClusterRoleBindings[i])
	}
	for i := range policy.Roles {
		mark(&policy.Roles[i])
		policy.Roles[i].Rules = inOrder(policy.Roles[i].Rules)
	}
	for i := range policy.RoleBindings {
		mark(&policy.RoleBindings[i])
	}
	return policy
}
