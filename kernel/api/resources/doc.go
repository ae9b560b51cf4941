// Package resources says, kind by kind, what the API's objects are: defaults,
// validation, what may change, which fields can be selected and how a table
// prints them.
//
// All gives the served kinds; kernel/api turns them into registry stores.
// AddToScheme registers the defaulting functions; the scheme applies them to
// whatever is decoded, from a client or from storage. A write then passes
// Decorate's BeginCreate or BeginUpdate hooks (services), the strategy's
// PrepareFor…, Validate… and Canonicalize, in this order, on one goroutine.
//
// The types are the versioned ones of k8s.io/api, which serve as the internal
// version too. Rules, field paths and the words of errors are upstream's
// (Kubernetes 1.36), since users and tools read them; fields behind feature
// gates follow the gate's default in that release.
//
// A Strategy is stateless and safe for concurrent use. The allocators of
// cluster IPs and node ports (ipalloc) are the one state here: they belong to
// the list that All returned, and read the stored services before the first
// allocation. They assume to be the only writer of services.
//
// The package must not import kernel/api, the store, the bus or a plugin.
package resources
