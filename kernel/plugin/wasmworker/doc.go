// Package wasmworker runs the WASM module of a bundle in a separate process. So a fault of
// the compiler is not a fault in the kernel's process.
//
// It owns both ends. In the kernel a Worker represents the process, and an Instance each
// instance of the module. In the process Main answers. The process is this program or the
// small one beside it (cmd/pintle-wasm-worker). The caller that starts it applies the same
// sandbox as to all plugin processes.
//
// How data passes through: the memory of an instance is a file in memory that kernel and
// worker map. Its size is sealed, so that no view of it can fail. The kernel writes its
// requests there and reads the answers there, without a copy. A socket pair per instance
// carries the called function, its numbers, and the return. The kernel executes host
// functions while it waits for the call to end.
//
// The worker is as untrusted as a module. Numbers are checked, and views end where the
// memory ends. A frame out of order or a missed deadline ends the process. The kernel reads
// each value in the memory once. Machine code comes from the kernel, sealed. The kernel keeps
// nothing that a worker makes.
//
// It imports kernel/plugin/engine, sdk/abi and wazero; it must not import other
// packages of Pintle.
package wasmworker
