// Package apps says what DaemonSets and StatefulSets are (apps/v1): defaults,
// validation, what may change and how a table prints them.
//
// Kinds gives the served kinds, AddToScheme their defaults. Rules, field paths
// and the words of errors are upstream's (Kubernetes 1.36). Deployments,
// ReplicaSets and ControllerRevisions are in package resources, which this one
// asks about pod templates.
//
// The package is stateless. It must not import kernel/api, the store, the bus or
// a plugin.
package apps
