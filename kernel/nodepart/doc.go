// Package nodepart is the node of a machine: its pod network, runtime, node agent, service proxy and
// the cluster's DNS, as a kernel and a machine without a kernel run them.
//
// # What it owns
//
// The order in which these start and stop, and the range of pod IPs: what the configuration
// names, or what the Node object is given. A Node that gets another range while it runs has
// the node start anew: pods of the former range end, whatever node.onStop says, since others
// may have their addresses. The rest of the process goes on.
//
// # How data passes through
//
//	configuration ──▶ Part ──▶ network plugin ──MTU, CNI──▶ runtime plugin ──endpoint──▶ node agent
//	API ◀── client of the node ──┘  └──▶ proxy plugin, DNS plugin
//
// Plugins come from the host by an interface. Clients are the caller's: in a kernel they
// pass no network, elsewhere they do.
//
// It must not import kernel/api or kernel/plugin, nor name a plugin.
package nodepart
