// Package cluster starts and stops Pintle for the end-to-end tests: the built
// binary with a data directory of its own, free ports, and, where it runs
// containers, a network of its own.
//
// # What it owns
//
// A Network is a Linux network namespace with one address and a default route:
// bridges, rules and ports of a cluster are private to it, so that clusters do
// not meet each other and what is left behind is easy to see. A Cluster is one
// process `pintle serve` in it, or `pintle node` of another one (Options.Of). A LAN
// is several Networks on one link. Programs (kubectl) and connections of a test
// reach a cluster through it.
//
// # What it promises
//
// Stop ends the process in order and reports, as an error, everything that is
// left: processes, mounts, interfaces, firewall rules, cgroups, sockets. Then
// it removes what was left, so that one fault does not fail the next test. A
// cluster ends with the test process, even when that is killed.
//
// How full the machine's disk is does not matter to a cluster, as long as there is some
// room: its node has thresholds in bytes, unless a test is about those of its
// configuration (OwnThresholds).
//
// It imports nothing of Pintle: what it knows is the command line, the printed
// lines and the data directory.
package cluster
