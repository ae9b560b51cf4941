// Package kubeletconfig translates a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) into the group node of a
// configuration of this kernel.
//
// # What it owns
//
// The vocabulary of that format: for each of its fields, whether the node agent has the same (keys.go), why it needs
// none, or what to do instead. A test holds the list against upstream's type: a field that upstream adds is noticed.
//
// # How data passes through
//
// The text is read as a tree (kernel/config/strictyaml) and decoded strictly into upstream's own type, for names and
// types. What is said is then taken from the tree, so that each message has its line, and written as YAML, alone or into
// an existing configuration whose other keys and comments stay.
//
// # Promises
//
// Nothing is left out in silence: what needs no counterpart is a note, what is not supported is a fault with what to do.
// The field's zero value and upstream's default ask for nothing and are passed over.
package kubeletconfig
