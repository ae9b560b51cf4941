// Package pluginaccess is how plugins of a machine without a kernel reach the API: a socket
// of each, which leads to the API server elsewhere by the node's credentials.
//
// # What it owns
//
// The API server knows the machine as one user, its node. So the rights of a plugin are two
// things: the rules of its manifest, as the operator left them, which are checked here, and the
// node's own rights, which the API server checks. A plugin that is taken over has no more
// than its rules; one that takes the machine over has no more than the node.
//
// # How data passes through
//
//	plugin ──socket──▶ rules ──node's certificate──▶ API server
//
// Requests that name another user, and those that open a stream other than a watch, do not pass.
// It must not import kernel/plugin, nor name a plugin.
package pluginaccess
