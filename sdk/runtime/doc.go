// Package runtime is what the author of a runtime plugin imports. A runtime
// plugin is the life-cycle of a CRI endpoint: it starts a container runtime or
// finds the one that runs, and hands over its socket. The node agent speaks
// CRI to the socket directly; the plugin is not on the path of a pod.
//
// Implement Runtime, name it in Serve. The kernel calls Start once, Status
// every few seconds (a runtime that died is the plugin's to start again) and
// Stop last. When the kernel or the plugin is killed nothing is called:
// containers go on running and Start finds them.
//
// The package imports the contract and the transport only.
package runtime
