// Package wasm runs a bundle's module of WebAssembly, in this process (package engine) or in a
// worker (package wasmworker). It verifies, meters and compiles a module, makes instances of
// it, and calls them.
//
// A Module is machine code; a Guest is one instance with its memory. Instances that review
// requests or run a controller are additional ones. Settings.Owner makes and configures them,
// so that they delay no other call. A module is untrusted. Each call has a deadline, which
// metered code checks. The package checks all answers. A module can call only the host
// functions of its manifest. A broken instance breaks nothing else.
//
// Goroutines: each controller has one. reconcilers.set starts it; Guest.Close ends it and
// waits for it. Guest.Close also waits for running reviews.
//
// The package may import sdk, kernel/reasons and the packages below kernel/plugin that guests
// have in common (guest, manifest, output, confinement, description, engine, modulecache,
// wasmworker, wasm/meter). It must not import kernel/plugin or process.
package wasm
