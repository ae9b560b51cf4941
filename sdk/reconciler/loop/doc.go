// Package loop is the host's side of a reconciler: Loop watches resources,
// queues keys and calls a function about them; Operations carry out the host
// functions against the API. The kernel runs both for controllers in WASM
// modules, and a process plugin for its own, so that they behave alike.
//
// How data passes through: metadata informers (names, labels and owners, never
// whole objects) of the watched and the owned resources put keys into a queue
// that knows each key once; a worker calls Reconcile; an error puts the key back
// with exponential back-off, 5 ms to 5 minutes.
//
// It imports client-go and sdk/reconciler/protocol; it must not import kernel.
package loop
