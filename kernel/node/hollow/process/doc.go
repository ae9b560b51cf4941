// Package process runs hollow nodes in a process of their own, over the network API of the
// cluster that a kubeconfig leads to: a Pintle kernel's or kube-apiserver's.
//
// # What it owns
//
// Run starts the runtime plugin from its bundle, asks the API server what the kubeconfig's
// user may do, and takes the nodes' names. The names are a Lease pintle-hollow-NAME in
// kube-system, which one process holds at a time (names.go). A process that cannot renew it
// ends. At its end Run gives the Lease up and leaves no process, socket or folder. The
// folder of a process that was killed is removed by the next (folder.go). The Node objects
// stay, as those of machines that were switched off.
//
// # How data passes through
//
// Pods, nodes and services are watched once, by the kubeconfig's user. What a node's agent
// asks and writes goes out as that node: the user impersonates system:node:NAME of the
// group system:nodes. So each request is held to a node's rights, and has a node's place
// in priority and fairness.
//
// It must not import kernel/api or any plugin: it is an ordinary client.
package process
