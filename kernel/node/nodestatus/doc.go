// Package nodestatus measures the machine and writes the Node object: registration, addresses, capacity, allocatable,
// node info, images and conditions (KNS-1 … KNS-6, NOD-1 … NOD-14), when something changed and at least each five
// minutes; the Lease says that the node lives. It must import only kernel/node/client, kernel/node/cri,
// kernel/node/cgroup and kernel/node/eviction of its siblings.
//
// A Source watches the Node objects. What somebody else wrote to a status (the node lifecycle controller says Unknown
// of a node that was silent) is seen there and put right by the next round, at once.
package nodestatus
