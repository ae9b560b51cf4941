// Package netfilter is the socket by which a proxy speaks to nftables.
//
// # What it owns
//
// One lasting socket, opened with the first use. After a fault answers may be left on it, so that
// it is closed and the next use opens another.
//
// Data passes: a proxy's messages → Socket.Conn → the kernel.
//
// It must not import kernel or a proxy.
package netfilter
