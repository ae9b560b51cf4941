// Command scheduling asks kube-scheduler itself (k8s.io/kubernetes, at the
// version of this module's go.mod) about pods on clusters, and writes clusters and
// answers as lines of JSON, which kernel/peer compares Pintle's modern set with.
//
// A cluster is a picture: nodes, pods on them, other objects, the configuration
// of plugins, and the pods that are asked about, each alone. Most clusters are
// drawn, a family a plugin, from a seed and the cluster's number in the family, so
// that a cluster can be drawn again alone. Others are what kube-scheduler's own
// tests of its plugins hand to the plugins (recorded; see tables.go).
//
// The answers come from the scheduler's framework with all plugins of its registry
// and the default profile, on a snapshot that its cache made: the verdict of each
// filter plugin on each node, also of those after the first that refuses; of the
// nodes that fit, the normalised score by each score plugin; and, in the families
// about preemption, each candidate with its victims.
//
// The program imports nothing of Pintle, since the two are built against
// different versions of the API's libraries.
package main
