// Package metrics is what a process plugin imports to have metrics of its own among
// the kernel's: Register takes collectors of client_golang, and the kernel's
// /metrics shows them with the label plugin, the name of the bundle.
//
// How data passes through: when the kernel's /metrics is asked for, it asks each
// process once (at most once a second) over the connection that it has anyway; the
// registry is gathered and goes back in Prometheus' text format. Nothing listens,
// and nothing is done in between.
//
// A bundle that serves by sdk.Serve or controller.Serve needs no more than
// Register; one that calls transport.Serve itself passes Service along.
//
// Caveats: what is over 1 MiB or 20,000 lines is left out as a whole, and so is
// what has a name that begins with pintle_. Other names of the kernel's own metrics
// are left out one by one, but for those that every process has (go_, process_,
// workqueue_, rest_client_, controller_runtime_, grpc_). The package is empty in a
// WASM build: of modules the kernel has what it counts itself.
//
// It imports sdk/contract and sdk/transport, and must not import the kernel.
package metrics
