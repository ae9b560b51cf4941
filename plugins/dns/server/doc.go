// Package server runs CoreDNS as a plugin of the node: it makes its Corefile, starts
// it within this process, and says where it takes queries.
//
// # What it owns
//
// The sockets at the node's address: one port for queries over UDP and TCP, and one
// for metrics. Who asks is compared with the pods' ranges and the node's own addresses
// before anything else; others get no answer. The API is had by the socket that stands
// for the plugin, whose rights are those of its manifest.
//
// CoreDNS keeps its plugins and servers in variables of the process, so a process
// runs one Server at a time.
//
// It must not import kernel.
package server
