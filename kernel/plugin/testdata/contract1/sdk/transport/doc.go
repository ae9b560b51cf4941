// Package transport carries the contracts of sdk/contract/v1 between the
// kernel and a process plugin over hashicorp/go-plugin: the handshake, the
// server side (Serve) and what the kernel dispenses on its side (Plugin).
//
// A plugin process serves Lifecycle and the services of every kind it holds on
// one gRPC server. Its standard error is its log, one JSON line a record
// (Logger); its standard output belongs to the handshake.
//
// It imports sdk/contract only and is empty in a WASM build.
package transport
