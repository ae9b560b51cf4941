// Package reconciler is for controllers that are a function of a key: the host
// watches, queues, backs off and elects a leader; the function reads and writes
// through a Host. The same source builds to a WASM module, which has no other
// way to the API than the host functions that its manifest is granted, and to a
// process.
//
// How data passes through: an object of the watched resource changes, or one
// that it owns; its key waits in the host's queue, once however often it
// changed; Reconcile is called with the key and asks the Host for objects as
// they are now. An error means again, later and later; a Result may ask for a
// time.
//
// It imports sdk for its exports and, in a process, sdk/controller. It must not
// import kernel or plugins. Objects are the author's own structs, or
// map[string]any: k8s.io/api is not needed, and would make a module large.
//
// Caveats: one Reconcile at a time in one controller. Reads go to the API, not
// to a cache.
package reconciler
