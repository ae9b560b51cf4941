// Package networkpolicy is the plugin that enforces NetworkPolicy for the pods of its node.
//
// # What it owns
//
// The nftables table pintle-networkpolicy (package table), and the switches of the kernel by
// which packets between two pods on one bridge meet it. It is a plugin of kind proxy, as the
// DNS of a node is: its life cycle is a proxy's, it is told no services, and it reads pods,
// namespaces and policies by an identity of its own.
//
// # What it promises
//
// Where there is no policy there is no table, and pods are not even watched. A policy that
// was enforced stays so while the plugin is down. A pod that starts is closed until its
// address is known here, and so is every pod of a node that starts, until policies were read.
// A start fails where neither succeeds. What the policies of one namespace take of the node
// is bounded (namespaceBudget); those beyond isolate their pods and allow no connection. A pod that
// gets the address of another one while this runs gets none of its connections.
// What a node and its own pods send each other always passes, which probes are. Rules that
// somebody else changed are replaced within seconds (checkInterval). A stop with cleanup
// leaves nothing.
//
// # How data passes through
//
//	watches (source.go, keep.go) → program.Cluster → program.Compiler → table.Apply (enforcer.go)
//	                                                                  → events (tell.go), flows (flows.go)
//
// It imports sdk only, and of the Kubernetes API the two groups that it reads, since each
// costs memory in the process that it shares.
package networkpolicy
