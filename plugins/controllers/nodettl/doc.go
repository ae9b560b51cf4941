// Package nodettl writes on each node for how long its agent may keep Secrets and
// ConfigMaps before it reads them again: the annotation
// node.alpha.kubernetes.io/ttl, in seconds, by the count of nodes. Up to a hundred
// nodes it is 0.
//
// It reads nodes from the shared informer and patches those whose annotation
// differs. The steps of the count overlap, so that a node that comes and goes at a
// boundary changes nothing. All nodes are looked at when a step changes, and each
// node when it changes.
//
// It imports sdk/controller and its neighbour queue, and no other controller.
package nodettl
