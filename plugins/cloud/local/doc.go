// Package local is the cloud provider for clusters without a cloud: services of type
// LoadBalancer get addresses of ranges that the configuration names.
//
// # What it owns
//
// Which service has which address, one of each of its families. The record is the status of the service, so a restart
// changes none. An address is one service's at a time.
//
// # What it does not do
//
// It touches no interface, route or rule, and needs no right on the machine: the proxy of
// each node serves the addresses as it serves cluster IPs. So machines with a node, and
// their pods, reach them. Others do by a route to a node, or in the network of the nodes by
// ARP and NDP, for which plugins/layer2 answers (configs/docs/plugins.md).
//
// A service gets no address that is a node's, the API server's, in a range of cluster IPs
// or in a range of pods. It learns no other service's name by asking for an address.
//
// An address that a service has is tested anew when the plugin starts and when the service
// changes. One that is outside the ranges by then, or another's as above, the service
// loses: its status is emptied, an event says why, and it gets another.
//
// Of nodes it knows what their agents say, and changes nothing about it. A node that waits
// for a cloud provider (taint node.cloudprovider.kubernetes.io/uninitialized) gets the
// provider ID local://NAME. It has no routes and no zones.
//
// Data passes: services, nodes, ranges (informers) → pool.go → status of services, which
// upstream's service controller writes.
//
// It imports sdk only.
package local
