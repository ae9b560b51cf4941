// Package apiservices writes the APIServices of plugins. It deletes those of plugins that are
// no longer in use, also those that an earlier kernel left.
//
// # What it promises
//
// It takes no group version that has another owner: not the kernel's groups, not those of a
// CustomResourceDefinition, of a user's APIService or of another plugin. A refused plugin gets
// the reason. An APIService of a plugin has the label kernel.pintle.dev/plugin with its name
// and no spec.service. One with a Service belongs to a user, whatever its labels say; the
// package neither changes nor deletes it.
//
// Of several kernels of one cluster the leader writes; its configuration counts,
// as for the roles of plugins (package roles).
//
// It imports kernel/plugin/groupversions. It must not import kernel/plugin.
package apiservices
