// Package authorization owns the chain of authorizers: who is asked whether a request
// is allowed, in which order.
//
// The chain is that of an AuthorizationConfiguration (apiserver.config.k8s.io/v1), or
// Node and RBAC without one. Before it come the members of system:masters, as
// upstream, and requests of the kernel's own parts, which Node and RBAC allow: a
// webhook that denies or hangs must not stop the node agent and the scheduler.
// Plugins are asked about as anybody is.
//
// How data passes through: file → checks of k8s.io/apiserver → authorizers in the
// order of the file → one pointer, which each request reads. The file is read again
// when it changes; one that cannot be used leaves the chain before in force. Webhooks
// have bounds: their own time-out a try, a minute for all tries, an answer of a
// megabyte, no redirects, and a cache of 8192 answers.
//
// It must not import the API server, and knows Node and RBAC as authorizers only.
package authorization
