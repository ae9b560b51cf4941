// Package object keeps the ConfigMaps and Secrets that the node's pods refer to: each is read once and then watched,
// one watch an object, as long as a pod refers to it (the kubelet's Watch strategy). A change wakes the pods that use
// it. An immutable object is read and not watched.
//
// Reads block for the first answer only. Secrets live in memory only. It must not import other packages of kernel/node.
package object
