// Package abi is the table of the functions that a WebAssembly module of plugins
// exports, with their signatures: those of sdk/ABI.md. The kernel and the contract's
// suite (sdk/artifact) both read modules by it, so that what one takes the other does.
//
// It imports nothing.
package abi
