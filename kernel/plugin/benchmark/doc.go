// Package benchmark measures what the predicates and priorities of a bundle cost, in the kernel's
// own plugin host on a random cluster. `pintle plugin bench` is made of it.
//
// A Run starts a host for one build after the other, feeds it a cluster of sdk/conformance, asks
// until the time for each figure is spent, and ends the host. It imports kernel/plugin and sdk;
// it must not import kernel/api or the store.
package benchmark
