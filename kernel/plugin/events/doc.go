// Package events reports on plugins as Kubernetes reports on objects: by Events about
// their Plugin objects, which kubectl describe shows.
//
// # What it owns
//
// Teller compares a plugin's status with the previous one. It writes an Event when a plugin
// becomes unavailable or available again, when a spec is not in force, and when another
// version runs. It writes none at the start of the kernel.
//
// # What it promises
//
// Equal events are counted in one. For a plugin that flaps, it writes 25 events at once
// and then one per five minutes (client-go's correlator). It drops an event that cannot be
// written; it does not wait and does not try again.
//
// It imports API types and client-go, and nothing of the host.
package events
