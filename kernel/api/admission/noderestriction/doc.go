// Package noderestriction is the admission plugin NodeRestriction: a node agent
// (user system:node:NAME, group system:nodes) may write its own Node, Lease and
// CSINode, the status of pods placed on it, mirror pods and evictions of its
// own, and ask for tokens of pods placed on it, for the audiences that the pods'
// own volumes name. It keeps a stolen node
// credential from moving work to that node: taints, most labels and owners of
// the Node are not the node's to write.
//
// What a node may read is the matter of the authorizer in auth/node.
package noderestriction
