// Package conformance lists the tests of k8s.io/apiserver's storages that need nothing but a storage.Interface, for the
// tests of each backend.
//
// It owns the list and nothing else; kernel/api/storage's tests see to it that no test of upstream is missing in it or
// there. It promises to name each once. It must be imported by tests only: it brings in package testing.
//
// Tests that need more of a backend (its transformer, its clock, a way to compact it) stand beside the backend.
package conformance
