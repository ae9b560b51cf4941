// Package roles writes what plugins in force may do as RBAC objects: a
// ClusterRole pintle:plugin:NAME and its binding for each plugin, and for each
// bundle whose plugins share informers. Rules of one namespace are a ClusterRole
// pintle:plugin:NAME:NAMESPACE and a RoleBinding pintle:plugin:NAME there, which waits for
// the namespace to be made. The plugin host says who is granted what;
// a Writer makes the objects so, and deletes those of everybody else, also what an
// earlier version of the kernel left.
//
// Several kernels may write to one API. Each deletes only roles of those kinds of
// plugins that it answers for; the kind is a label of the role.
//
// It imports kernel/api/auth/rbac for the objects' form; it must not import
// kernel/plugin.
package roles
