// Package wasmworker runs the WASM module of a bundle in a process apart, so that a
// fault of the compiler is not one in the kernel's process.
//
// It owns both ends. In the kernel a Worker stands for the process and an Instance
// for each instance of the module; in the process Main answers. The process is this
// program or the small one beside it (cmd/pintle-wasm-worker); whoever starts it puts
// it behind the walls that all plugins' processes have.
//
// How data passes through: an instance's memory is a file in memory that kernel and
// worker map. Its size is sealed, so that no view of it can fail. What the kernel asks
// is written there and read there, without a copy; a socket pair of the instance
// carries who is called, with which numbers, and the way back. Host functions are
// carried out in the kernel, while it waits for the call to end.
//
// What comes from the worker is believed as little as a module is: numbers are
// checked, views end where the memory does, a frame out of turn or a missed deadline
// ends the process. What is read from the memory is read once. Machine code comes from
// the kernel, sealed; nothing that a worker makes is kept.
//
// It imports kernel/plugin/engine, sdk/abi and wazero; it must not import other
// packages of Pintle.
package wasmworker
