// Package admissionregistration says what the objects of admission are that users
// configure (admissionregistration.k8s.io/v1): webhooks, policies in CEL and their
// bindings. It has defaults, validation, what may change, who may name parameters,
// and how a table prints them.
//
// Kinds gives the served kinds, AddToScheme their defaults. Rules, field paths and
// the words of errors are upstream's (Kubernetes 1.36). What the objects do to
// requests is package kernel/api/admission/dynamic.
//
// Data passes: a strategy gets an object as it was decoded, compiles its
// expressions to find faults, and keeps nothing. The environment of CEL is made
// when the first expression is compiled.
//
// The package must not import kernel/api, the store, the bus or a plugin.
package admissionregistration
