// Package podnetwork keeps the plugin that connects the pods of a node with those of other nodes.
// It starts the plugin before the node's runtime, hands it the other nodes, and reports its state.
//
// # What it owns
//
// The condition NetworkUnavailable of its node, and events about nodes that are refused. A node that is
// refused, or that the plugin does not reach, is no fault of this one. A start without a plugin
// withdraws the condition.
//
// # What it promises
//
// Diffs go to the plugin in order, one at a time; the first after each start holds every
// node. A plugin that fails or restarts gets every node anew. The condition becomes True
// only when the plugin was not ready for a while: what it made before carries packets.
//
// # How data passes through
//
// Informer of nodes → convert.go → network.Diff → sdk/network client → plugin → status →
// condition and events.
//
// It may import sdk, never kernel/plugin, nor name a plugin.
package podnetwork
