// Package meter rewrites a WASM module so that it can be stopped from within. Rewrite adds
// a counter of fuel that the module cannot name, and a call of one host function when the
// fuel is used up. It also joins data segments that lie close to each other.
//
// Rewrite is a pure function from bytes to bytes. Its input is untrusted: malformed or too
// large input is an error, and so is a feature that cannot be metered. It does not prove
// validity; the compiler checks that afterwards. The name of a cached module must contain
// Version.
//
// It starts no goroutine. It imports kernel/plugin/engine for the names of the host function,
// and nothing else of Pintle.
package meter
