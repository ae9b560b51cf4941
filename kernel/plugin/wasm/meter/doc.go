// Package meter rewrites a WASM module so that it can be stopped from within: Rewrite adds
// a counter of fuel that the module cannot name, and a call of one host function when the
// fuel is used up. Data segments that lie close to each other are joined on the way.
//
// Rewrite is a pure function from bytes to bytes. Its input is untrusted: what is malformed,
// too large or uses a feature that cannot be metered is an error. It proves nothing about
// validity, which the compiler checks afterwards. Version belongs into the name of a cached
// module.
//
// It starts no goroutine. It imports kernel/plugin/engine for the names of the host function,
// and nothing else of Pintle.
package meter
