// Package userspace is the proxy that copies bytes itself: for each service
// port it listens on a local port and connects every client to one endpoint,
// round robin or by the client's address. It is pure Go and needs no root;
// what root adds is the way in.
//
// # What it owns
//
// Its listening sockets, the balancer's records (balancer.go), and the portals
// that lead a cluster IP to a listening socket: with root and iptables two
// chains of table nat, KUBE-PORTALS-CONTAINER and KUBE-PORTALS-HOST
// (requirements PUS-8 to PUS-17); with root alone the addresses themselves, on
// an interface of its own; without root none, so that node ports are served
// and cluster IPs are not.
//
// # How data passes through
//
// Apply folds a diff into the state and compares each touched port with what
// is open: the same is left alone, another is closed and opened anew, never
// edited in place (PUS-6). Client → virtual IP → portal → local port → chosen
// endpoint.
//
// It must not import kernel.
package userspace
