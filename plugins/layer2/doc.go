// Package layer2 is the plugin that announces addresses of load balancers on the network of
// its node: other machines find them there by ARP, those of IPv6 by NDP, without a route.
//
// # What it owns
//
// Which node answers for an address, and these answers. It is a plugin of kind proxy, as the
// enforcer of network policies is: its life cycle is a proxy's, and it reads services, nodes
// and endpoint slices by an identity of its own. It changes nothing on the machine: the proxy
// of the node serves the addresses, whether an interface has them or not.
//
// # What it promises
//
// One node answers for an address, as long as nodes hear each other. Each node computes which
// one, from the same objects: of the nodes on the link that are Ready, that with the highest hash of node and
// address. With externalTrafficPolicy Local only nodes with an endpoint count. Nothing is
// written to the API but events.
//
// A node asks first whether some machine has the address, as RFC 5227 and RFC 4862 say. If one has, it
// is not taken; an event of the service says so, and it is asked again. So the node before
// and the node after do not answer at once, also when one of them is cut off from the API: as
// long as a node answers, it serves.
//
// Where the link itself is cut, nodes on both sides may answer. When they hear each other
// again, by what each announces every minute, the one with the higher hardware address lets
// the address go.
//
// What the plugin cannot do now it tries again by itself, and stays Ready with a message.
//
// Packets of the link are untrusted: what is kept of them is bounded by what this node asks.
// A packet of NDP with a hop limit below 255 came over a router, and is not read.
//
// The two families are apart: a fault of one does not touch the other.
//
// # How data passes through
//
//	watches (source.go) → plan.go, pure → claims.go (probe, hold, defend) → arp.go, ndp.go (packets)
//	                                                                      → tell.go (events)
//
// A loop (announcer.go) has a link for each family (nodelink.go), with its plan and claims.
//
// It imports sdk only.
package layer2
