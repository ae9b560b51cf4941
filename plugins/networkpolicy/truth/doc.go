// Package truth is for tests only: what network policies allow, and a way to see whether
// machines do.
//
// # What it owns
//
// A small world of nine pods (World), what the API's documentation says of a connection in
// it (Allowed), how a program decides (Passes), policies by chance (Chance), and hosts that
// send and receive real packets in network namespaces (Host, Matrix).
//
// Data passes: policies → Allowed, and → program → Passes or a packet filter; both have to
// say the same.
//
// It must not import the kernel.
package truth
