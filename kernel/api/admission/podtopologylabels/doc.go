// Package podtopologylabels is the admission plugin PodTopologyLabels: a pod
// that is on a node, by its binding or from its creation, has the node's zone and
// region as labels, by which its containers can be told where they run.
//
// It reads nodes from the shared informer and keeps nothing. The API's bindings,
// which come past admission, ask it directly (Of).
package podtopologylabels
