// Package artifact opens what was built of a bundle, the way the kernel does
// but without one: for an author's tests, for the conformance suite and for
// measurements.
//
// Source runs the plugins in the caller's own process, OpenModule a WASM module
// (wazero, no host functions beyond WASI), OpenProcess an executable
// (hashicorp/go-plugin, mutual TLS). All three answer the same questions through
// Artifact, with reasons spelled out, so that their answers can be compared.
//
// It promises to stop what does not answer in time and to leave no process. It
// is neither as quick nor as guarded as the kernel's plugin host: a module is
// not metered, nothing is pinned by a digest, and nothing is started again.
//
// It imports sdk, wazero and go-plugin; it must not import kernel.
package artifact
