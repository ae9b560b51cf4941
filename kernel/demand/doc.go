// Package demand finds the first object that asks for a plugin which starts on demand.
//
// # What it owns
//
// The rules of the configuration (controllers.onDemand), and which of their plugins an object
// has asked for. A plugin that was asked for stays so until the kernel ends. A later start
// looks at the objects anew, so nothing of this is stored.
//
// # How data passes through
//
//	list and watch of one resource ──▶ rules ──▶ Met(plugin, object)
//
// A resource is watched only while a plugin waits for an object of it. Objects are looked at
// and not kept. Of a resource that is not served yet, its CustomResourceDefinition is watched.
//
// It knows no plugin and no resource by name. It must not import kernel/plugin.
package demand
