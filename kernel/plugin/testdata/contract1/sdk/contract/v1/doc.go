// Package contractv1 is the wire contract between the kernel and its plugins,
// version 1: the protobuf messages and gRPC services that process plugins
// serve, and the Delta that WASM modules read from their memory.
//
// The .proto files beside this one are the contract; the Go code is generated
// from them and checked in. It imports nothing of Pintle. Field numbers are
// never reused and a field is only ever added, so that a plugin and a kernel
// of different ages understand each other.
//
// This package is not part of a WASM build: guests decode a Delta by hand
// (package sdk) to stay small.
package contractv1
