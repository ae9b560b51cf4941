// Package admission builds the chain of admission plugins, in upstream's order
// and under upstream's names, for the kinds that are served (plugins.go), with
// our own PluginSpec and the reviews by the kernel's plugins before ResourceQuota,
// which comes last (000 API-20: authentication, authorization, then quota and
// others). Each can be enabled and disabled by name. Each has a package below this
// one, except those that k8s.io/apiserver holds.
//
// The chain reads through shared informers and, where a cache may lag behind
// the request that just preceded, through a client. The caller starts the
// informers; until they have synced, plugins that need them look up live or
// wait (at most ten seconds), so that the chain never delays the server's start.
//
// Plugins see the versioned types. They must not import kernel/api.
package admission
