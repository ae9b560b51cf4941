// Package nodeipam gives each node its range of pod IPs, one of each family: kube-controller-manager's range
// allocator. It does nothing unless allocateNodeCIDRs is true.
//
// clusterCIDR is cut into blocks of the size of a node's range. A node without spec.podCIDRs gets the next free
// block; the search goes on where the last one ended, so that a block rests before it is given again. Blocks that
// the ranges of services touch are never given, nor those of reservedCIDRs, which nodes name themselves. All nodes that are known are looked at before the first block is
// given. A range that a node has by itself is respected wherever it lies; what of it lies in clusterCIDR is taken.
//
// A block belongs to a node, by its UID, from when it is chosen until the node is gone. A write whose end is not
// known is therefore tried again with the same block, and no block is given twice or lost. A block that two nodes
// have is free when both are gone. A node that finds no free block waits; the end of another one wakes it.
//
// It differs from kube-controller-manager in that: which gives a failed block to the next node, loses one where the
// other family has none, frees a block that another node still has, and does not start where a node has a range
// outside of clusterCIDR.
//
// It imports sdk/controller, sdk/metrics, queue and settings, and no other controller. What a node does with its
// range is the node agent's matter.
package nodeipam
