// Package engine runs WASM modules by wazero: it compiles, gives them their imports
// and makes instances. The plugin host uses it in the kernel's own process, and
// package wasmworker in a process apart; both run a module by the same code.
//
// It owns what a module can reach: WASI without network, of files the folders that
// are mounted, and the host functions. What these do is the Host's, which is in the
// context of each call (Context).
//
// Machine code is memory of the process's own. Release moves it into a file without a name
// while little of it runs, so that the system need not keep what nobody runs. It moves what the
// disk has taken, and tries a folder whose files cannot be run once.
//
// Of a module that is compiled its instructions are let go of (bodies.go).
//
// It imports wazero and the names of sdk/reconciler/protocol; it must not import
// other packages of Pintle.
package engine
