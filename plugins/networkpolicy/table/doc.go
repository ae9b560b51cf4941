// Package table gives a program of network policies to the kernel's packet filter: a table
// of nftables of its own, over netlink, without any tool.
//
// # What it owns
//
// The table pintle-networkpolicy of family inet, or pintle-networkpolicy-2, and nothing beside
// it: proxies, the CNI plugins and others have tables of their own.
//
// # What it promises
//
// Each change is one transaction: the filter has the old program or the next one, and no
// packet meets anything between. The first program of a process, and one after a fault or
// after somebody else's change, replaces the whole table; others send what differs alone.
// Connections that were allowed go on: what is established is not asked about again.
//
// A change that is too large for one transaction fills a second table, which has no base chains
// yet, in several. One small transaction then gives it base chains and deletes the first. Where
// packets meet no table though they should, the node is closed until the new one is full.
//
// Data passes: program.Program → differences (program.ChangesOf) → messages → kernel.
//
// It must not import the kernel of Pintle.
package table
