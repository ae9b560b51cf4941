// Package benchmark measures the cost of the predicates and priorities of a bundle, in the
// kernel's own plugin host on a random cluster. `pintle plugin bench` is built on it.
//
// A Run starts a host for each build in turn and feeds it a cluster of sdk/conformance. It
// asks until the time for each figure is used up, and ends the host. The package imports
// kernel/plugin and sdk; it must not import kernel/api or the store.
package benchmark
