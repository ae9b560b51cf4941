// Package follower keeps a plugin of a node that follows the API by itself: the one that
// enforces network policies, and the one that announces addresses. It starts the plugin, waits
// where the node's first pod has to wait for it, and looks after it.
//
// # What it promises
//
// Start returns when the plugin does its work, or says why this machine cannot. A plugin that
// fails is started again.
//
// # How data passes through
//
// The plugin has the life cycle of a proxy, and no diffs: it watches the API by a socket of
// its own.
//
// It shares no code with kernel/node/podnetwork, which keeps another kind of plugin. A network has
// diffs of nodes, a condition and events. Its start answers how pods' interfaces are made, and has other errors
// that are final. Alike are the loop of tries, the line that is logged once, and the stop: some thirty
// lines. A shared frame needs parameters for the plugin, its options, its answer and its final
// errors, and is longer than what it saves.
//
// It must not import kernel/plugin, nor name a plugin.
package follower
