// Package networkpolicy keeps the plugin that enforces network policies on a node: it starts
// it before the node's first pod, and looks after it.
//
// # What it promises
//
// Start returns when the plugin enforces the policies, or says why this machine cannot. A
// plugin that fails is started again; what it enforced before stays in force meanwhile.
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
package networkpolicy
