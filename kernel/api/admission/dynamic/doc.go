// Package dynamic is the admission plugins that users configure by objects: webhooks
// and policies in CEL. They are k8s.io/apiserver's own, under upstream's names.
//
// A plugin is made when the first object is there that configures it; until then
// a request costs a look at how many there are. The kernel's own writes at its start
// are not asked about, and neither are the objects themselves: what refuses
// everything can be taken away again.
//
// How data passes: a request goes to each plugin in the chain's order. Objects in
// memory have versioned types, so that what upstream converts is copied here
// (interfaces.go); the answers of webhooks are bounded and their redirects are
// refused (clients.go). Asked tells the ways of writing that leave the handlers of
// the API aside whether they may.
//
// The caller owns the informers and the channel that ends what a plugin starts. The
// package must not import kernel/api.
package dynamic
