// Package noderestriction is the admission plugin NodeRestriction: a node agent
// (user system:node:NAME, group system:nodes) may write its own Node, Lease and
// CSINode, the status of pods placed on it, mirror pods and evictions of its
// own, and ask for tokens of pods placed on it. It keeps a stolen node
// credential from moving work to that node: taints, most labels and owners of
// the Node are not the node's to write.
//
// Reads are not limited (that is upstream's Node authorizer); RBAC's
// system:node says what a node may read.
package noderestriction
