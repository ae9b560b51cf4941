// Package protocol is what passes between a reconciler and its host, whatever
// carries it: names of objects, results, and the requests and answers of the
// host functions as JSON (ABI.md, "Controllers").
//
// It imports the standard library only, so that it can be compiled into a
// small WASM module.
package protocol
