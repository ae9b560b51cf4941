// Package rbac decides who may do what: an authorizer over Role, ClusterRole,
// RoleBinding and ClusterRoleBinding, the guard that keeps users from granting
// what they do not have, the default roles and the aggregation of ClusterRoles.
//
// An Index, fed by informers, keeps the bindings by subject, so that a request
// looks at its user's and its groups' bindings only and never lists. Its view
// is eventually consistent, as upstream's. The Authorizer always allows the
// group system:masters, so the kernel itself can work while the index is empty.
//
// Bootstrap writes the default roles and bindings; it reads each kind once and
// writes only what is missing, so that a second start writes nothing. Objects
// annotated rbac.authorization.kubernetes.io/autoupdate=false are left alone.
//
// The ClusterRole system:node is bound to nobody: auth/node gives each node its
// share of it.
//
// It must not import kernel/plugin; kernel/plugin may call PluginPolicy.
package rbac
