// Package kubecontrollers translates a KubeControllerManagerConfiguration
// (kubecontrollermanager.config.k8s.io/v1alpha1) into the controllers of a configuration
// of this kernel: which are enabled, and what they are configured with.
//
// # What it owns
//
// The vocabulary of that format: for each of its fields (rules.go) which key of which
// controller has the same, why it needs none, or what to do instead; and for each
// controller's name (names.go) the plugin that is the same. Tests hold both against
// upstream's type and against the page about Kubernetes: what is added is noticed.
//
// # How data passes through
//
// The text is read as a tree (kernel/config/strictyaml) and decoded strictly into
// upstream's own type, for names and types. What is said is then taken from the tree, so
// that each message has its line, and written as YAML, alone or into an existing
// configuration whose other keys and comments stay.
//
// # Promises
//
// Nothing is left out in silence: what needs no counterpart is a note, what is not
// supported is a fault with what to do. A field's zero value asks for nothing, as there.
package kubecontrollers
