// Package nftables is the proxy that lets the kernel forward by nftables: it writes one
// table a family over netlink and touches no packet itself. It needs no tool on the machine.
//
// # What it owns
//
// The tables `ip pintle-proxy` and `ip6 pintle-proxy`, and the kernel's switches of package
// sysctl. Nothing of another table is read or written.
//
// # How a packet passes through
//
// The base chains and what they do are those of kube-proxy 1.36 in this mode (layout.go).
// What differs is where endpoints are. Services have no chains of their own. The map
// service-ips leads an address with its port to a chain that is shared by all services with
// as many endpoints (service-cluster-3). That chain draws a number, and the map endpoints
// holds the endpoint of that service and number. So services and endpoints are elements of
// maps, and a change is a few elements. Services with session affinity and those with source
// ranges have chains of their own (chains.go).
//
// # How data passes through
//
// Apply folds a diff into the state. desired.go says which elements and chains a service's
// port wants, without asking the kernel. wanted.go holds what all ports want, and which of
// two ports that want one address has it. diff.go turns a difference into a transaction,
// netlink.go sends it, and the kernel takes it whole or not at all. With each period
// (sync.go) the kernel's generation shows whether a table was changed; then the proxy
// reads its own tables and mends what differs.
//
// It must not import kernel or another proxy.
package nftables
