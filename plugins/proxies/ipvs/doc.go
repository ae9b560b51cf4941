// Package ipvs is the proxy that lets the kernel's load balancer (IPVS) choose endpoints. It
// needs no tool on the machine, and a kernel with the module ip_vs.
//
// # What it owns
//
// Virtual servers of IPVS, the device pintle-ipvs0 with the addresses of services, the tables
// `ip pintle-ipvs` and `ip6 pintle-ipvs` of nftables, and switches of package sysctl. As
// kube-proxy does, it deletes virtual servers of others, but for those in excludeCIDRs.
//
// # How a packet passes through
//
// An address on pintle-ipvs0 is this machine's, so that packets to it come to IPVS, which sends
// them to an endpoint. A node port has a virtual server at each of the machine's addresses. All
// these are fronts: an address, a protocol and a port. The tables (layout.go) know fronts by sets
// alone. They refuse what has no endpoint, check source ranges, choose whom to masquerade, and
// keep the node's own ports from being reached by addresses of services.
//
// Under externalTrafficPolicy Local, pods and the node use all endpoints of an address for
// outside, and others those of this node. Such a front has two virtual servers. The tables mark
// packets of pods and of the node, and the second server is the one for that mark (marks.go). With
// session affinity its scheduler is sh, as the kernel's affinity does not fit marks.
//
// # How data passes through
//
// Apply folds a diff into the state. plan.go says what the fronts of a port want, desired.go joins
// all ports and says which of two has a front that both want. side.go brings one family's wishes
// to the kernel: only what differs from what it has. What it has is read once a period and
// mended. A real server that is to go gets weight 0 and goes when its connections have ended
// (servers.go).
//
// It must not import kernel or another proxy.
package ipvs
