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
	policy := Policy{
		ClusterRoles: slices.Concat(userRoles(), systemRoles(), certificateRoles()), ClusterRoleBindings: clusterBindings(),
		Roles: namespaceRoles(), RoleBindings: namespaceBindings(),
	}
	for i := range policy.ClusterRoles {
		mark(&policy.ClusterRoles[i])
	}
	for i := range policy.ClusterRoleBindings {
		mark(&policy.ClusterRoleBindings[i])
	}
	for i := range policy.Roles {
		mark(&policy.Roles[i])
	}
	for i := range policy.RoleBindings {
		mark(&policy.RoleBindings[i])
	}
	return policy
}
