// Package apiservices writes the APIServices of what plugins serve, and deletes those of
// plugins that are in use no more, also those that an earlier kernel left.
//
// # What it promises
//
// Nobody's group version is taken: not the kernel's groups, not what a
// CustomResourceDefinition or somebody's APIService serves, not another plugin's. Who
// is refused is told why. An APIService of a plugin has the label
// kernel.pintle.dev/plugin with its name and no spec.service; one with a Service is
// somebody's own, whatever its labels say, and is neither changed nor deleted.
//
// Of several kernels of one cluster the one that leads writes; its configuration counts,
// as for the roles of plugins (package roles).
//
// It imports kernel/plugin/groupversions. It must not import kernel/plugin.
package apiservices
