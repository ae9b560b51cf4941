// Package networking says what the objects of networking.k8s.io/v1 are: defaults,
// validation, what may change and how a table prints them.
//
// Kinds gives the served kinds, AddToScheme their defaults. Rules, field paths
// and the words of errors are upstream's (Kubernetes 1.36). Nothing here acts on
// traffic: an ingress controller and a network plugin read the objects.
//
// The package is stateless. It must not import kernel/api, the store, the bus or
// a plugin.
package networking
