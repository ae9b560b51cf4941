// Package podnat translates addresses of pods on a bridge: host ports lead to pods, and what
// pods send beyond the cluster has the machine's address. It writes nftables over netlink and
// needs no tool on the machine.
//
// # What it owns
//
// The tables BRIDGE-hostports and BRIDGE-masquerade, in the families ip and ip6, where pods
// have both. Names begin with the bridge's, so that two runtimes of one machine do not meet.
// Also the records of host ports, a file a sandbox in one folder, and the switch
// route_localnet of the bridge while there are host ports.
//
// # How data passes through
//
// The CNI plugin hostports calls HostPorts.Add and Remove; each changes the record of one
// sandbox, then Sync. Sync makes the tables what all records say (hostports.go), by what
// differs (netlink.go), in one transaction a family. So a process that is killed between
// record and table costs nothing: the next Sync, of whatever sandbox, finishes. The runtime
// calls Sync when anybody changed rules of the machine, which puts right what others deleted.
// Masquerade.Sync does the same for the one rule of a node (masquerade.go).
//
// A folder is locked while it is read or written, so that many processes may do all this at once.
//
// Of Pintle it imports how flows are deleted, and nothing else: the CNI plugin starts for
// each pod.
package podnat
