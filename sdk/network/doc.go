// Package network is what the author of a network plugin imports. A network keeps the pods
// of this node and those of other nodes in reach of each other, without address
// translation.
//
// Implement Network, name it in Serve. The node calls Probe (can this network run here?),
// then Start, before its runtime starts: the answer says how the runtime makes pods'
// interfaces. Then come the other nodes as diffs, in order and one at a time; the first after
// Start has Reset set. State folds them into what there is now. What was made stays
// while the plugin is down.
//
// Nodes are untrusted input: who has a machine writes its Node's addresses, and may have
// written its ranges. A network gives no node what is another's, and says in Status which
// nodes it refuses.
//
// The package imports the contract and the transport only.
package network
