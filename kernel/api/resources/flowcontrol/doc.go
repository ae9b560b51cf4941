// Package flowcontrol says what the objects of API priority and fairness are
// (flowcontrol.apiserver.k8s.io/v1): defaults, validation, what may change and how
// a table prints them.
//
// Kinds gives the two served kinds, AddToScheme their defaults. Rules, field paths
// and the words of errors are upstream's (Kubernetes 1.36). What the objects do to
// requests is package kernel/api/flowcontrol.
//
// The package is stateless. It must not import kernel/api, the store, the bus or a
// plugin.
package flowcontrol
