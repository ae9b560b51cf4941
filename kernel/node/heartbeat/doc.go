// Package heartbeat keeps the Lease by which a node says that it lives (NODE-7).
//
// It owns the object of the node's name in kube-node-lease: made when it is missing, renewed on the version last
// written without a read, read again when somebody else wrote it. It promises to answer soon after a failure and not
// to wait itself, so that thousands of nodes share the goroutines that renew.
package heartbeat
