// Package noderesources holds what NodeResourcesFit, NodeResourcesFitScore and
// NodeResourcesBalancedAllocation have in common: which names are resources that a
// scheduler counts, how much of them a pod asks for and a node has, and the
// configuration that the first two share.
package noderesources
