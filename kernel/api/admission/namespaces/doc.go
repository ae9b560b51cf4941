// Package namespaces is the admission plugins NamespaceExists, which refuses requests
// in a namespace that is not there, and NamespaceAutoProvision, which makes the
// namespace that a new object is to be in. Both are off by default: NamespaceLifecycle
// refuses new objects in namespaces that are not there.
//
// With NamespaceAutoProvision, who may create objects in a namespace of any name makes
// namespaces without the right to.
package namespaces
