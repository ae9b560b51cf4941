// Package engine runs WASM modules with wazero: it compiles them, gives them their imports
// and makes instances. The plugin host uses it in the kernel's own process, and
// package wasmworker in a separate one. Both run a module by the same code.
//
// It owns what a module can reach: WASI without network, the mounted folders, and the host
// functions. The Host implements these functions; it is in the context of each call
// (Context).
//
// Machine code is private memory of the process. Release moves it into a file without a name
// while little of it runs, so that the system need not keep unused code in memory. It moves
// what the disk has accepted. It tries a folder whose files cannot be executed only once.
//
// After the compilation of a module, its instructions are released (bodies.go).
//
// The package imports wazero and the names of sdk/reconciler/protocol; it must not import
// other packages of Pintle.
package engine
