// Package events tells of plugins as Kubernetes tells of objects: by Events about
// their Plugin objects, which kubectl describe shows.
//
// # What it owns
//
// Teller compares a plugin's status with the one before and writes an Event where
// people would want to know: a plugin is not available or is again, a spec is not in
// force, another version runs. A start of the kernel is none.
//
// # What it promises
//
// Like events are counted in one, and a plugin that flaps is told of 25 times at once
// and then once in five minutes (client-go's correlator). An event that cannot be
// written is left out: it holds nothing up and is not tried again.
//
// It imports API types and client-go, and nothing of the host.
package events
