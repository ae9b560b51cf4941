// Package roles writes the rights of plugins in force as RBAC objects. Each plugin has a
// ClusterRole pintle:plugin:NAME and its binding, and so has each bundle whose plugins share
// informers. Rules of one namespace are a ClusterRole pintle:plugin:NAME:NAMESPACE and a
// RoleBinding pintle:plugin:NAME there, which is made when the namespace exists. The plugin
// host decides the rights. A Writer makes the objects equal to them. It deletes all others,
// also those that an earlier version of the kernel left.
//
// Several kernels may write to one API. Each deletes only roles of the kinds of
// plugins that it is responsible for; the kind is a label of the role.
//
// It imports kernel/api/auth/rbac for the form of the objects. It must not import
// kernel/plugin.
package roles
