// Announce is a CNI plugin that says at which hardware address a pod's IP is now.
//
// An address that was another pod's is remembered with that pod's hardware address: by
// the node and by every pod that has spoken with it. Linux asks anew only after
// some eight seconds without an answer, in which a pod that only listens is not reached:
// its probes fail. The CNI plugin bridge leaves the announcement to the sysctl
// arp_notify, by which Linux sends it while the port of the bridge is still closed.
//
// It stands behind the plugin bridge in the list of a network, since bridge returns once
// the port is open. Its input is the result of that plugin (addresses, interfaces); it
// returns the result unchanged. It announces IPv4 addresses. It imports nothing of Pintle.
package main
