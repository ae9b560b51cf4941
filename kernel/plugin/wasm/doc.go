// Package wasm runs a bundle's module of WebAssembly, in this process (package engine) or in a
// worker (package wasmworker): it verifies, meters and compiles a module, makes instances of
// it, and asks them.
//
// A Module is machine code, a Guest one instance with its memory. Instances that review
// requests or run a controller are further ones, made and configured by Settings.Owner, so
// that they hold up nobody. A module is untrusted: each call has a deadline that metered code
// looks at, what it answers is checked, and it can call no function of the host but those of
// its manifest. What breaks an instance breaks nothing else.
//
// Goroutines: each controller has one, which reconcilers.set starts and Guest.Close ends and
// waits for; it waits for reviews that are under way, too.
//
// It may import sdk, kernel/reasons and the packages below kernel/plugin that guests have in
// common (guest, manifest, output, confinement, description, engine, modulecache, wasmworker,
// wasm/meter). It must not import kernel/plugin or process.
package wasm
