// Package podresize is the admission plugin PodResizeValidator: a resize in
// place that asks for more than the pod's node gives to pods is refused, as the
// scheduler would count it and the node could never grant it.
//
// It reads the node from the API for each resize, and keeps nothing.
package podresize
