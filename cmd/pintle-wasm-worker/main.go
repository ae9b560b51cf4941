// Pintle-wasm-worker runs the WASM module of a bundle in a process apart; the kernel
// starts it (see kernel/plugin/wasmworker).
package main

import "pintle.dev/pintle/kernel/plugin/wasmworker"

func main() { wasmworker.Main() }
