// Package bridge is the network plugin that reaches pods of other nodes by routes. They lead over
// the link that both nodes have, or through a VXLAN tunnel where a router is between them. The
// backend wireguard encrypts all of it (key.go, secure.go). The pods of a node are on a bridge,
// which the runtime's own CNI configuration makes.
//
// # What it owns
//
// Routes of the protocol number 90, the interfaces pintle-vxlan with its neighbours and pintle-wg
// with its peers, the node's private key, the nftables table `pintle-network` of each family, and the kernel's switches by which it forwards
// (forward.go). A start that fails takes back what it made. Nothing of others is changed: a range to which there is a route already is refused.
//
// # What it promises
//
// A Node is untrusted input. A node gets routes to its own ranges alone. These are inside the
// cluster's, and overlap no range of this node, of services, or of a network of this machine. A range
// that a node had stays its own, also after a restart (holders.go). The status names each node that is
// refused, with the reason.
// A route that was deleted is back within seconds (checkInterval). A stop with cleanup
// leaves nothing; without it pods go on reaching each other.
//
// # Both families
//
// A range is reached by a route where both nodes have an address of its family on one link. The
// tunnel is one, and its packets are of the family of this node's first address, whatever they
// carry. Its ends know each other by the first range of each node.
//
// # How data passes through
//
//	diffs → network.State → plan.go, pure → machine.go, tunnel.go, secure.go (netlink), table.go (nftables)
//
// It imports sdk only.
package bridge
