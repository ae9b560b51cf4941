// Package nodestatus measures the machine and writes the Node object: registration, addresses, capacity, allocatable,
// node info, images and conditions (KNS-1 … KNS-6, NOD-1 … NOD-14), when something changed and at least each five
// minutes; the Lease says that the node lives. It must import only kernel/node/client and
// kernel/node/cri of its siblings.
package nodestatus
