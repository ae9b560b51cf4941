// Package poddelete serves deletes of pods as controllers and node agents send them: the one
// that begins a pod's end with a grace period, and the node's own that ends it.
//
// # What it owns
//
// Handler takes such a request from before the machinery's handler. The first delete marks a
// shallow copy of the stored pod, which is neither copied as a whole nor decoded. The last one,
// with a grace period of zero and by the agent of the pod's node, is one commit. The machinery
// writes the grace period of zero first and deletes then, which each watch of pods hears of.
//
// # What it promises
//
// A delete that is served here has the outcome and the answer that the machinery gives it. The
// last event of a pod shows it as the machinery does, with a grace period of zero. Only the
// event in between is not there: a pod whose node says that nothing of it is left does not
// change once more before it goes. A watch that has the pod's end from the store, and not while
// it happens, sees the pod as it was stored last.
//
// What is not ordinary goes the machinery's way before anything has happened: other options,
// dry runs, finalizers of the garbage collector, pods without a node, deletes at once by
// anyone but the node, and all that is refused. So no refusal has words here. A test sends the
// same deletes both ways.
//
// # How data passes through
//
// Request → Handler.ordinary (shape of the options) → storage.Replace or storage.Remove, which
// give the stored pod → rest.BeforeDelete, admission → one commit → package answers.
//
// It must not import kernel/api, nor a kind: the strategy comes with the registry store.
package poddelete
