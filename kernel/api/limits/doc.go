// Package limits bounds what one client may hold of the API server beside its
// turns (package kernel/api/flowcontrol): the bodies of its requests, its watches
// and streams, its connections.
//
// Bodies reads a request's body before the request waits for a seat, within a time
// that grows with what has come. Watches counts what stays open. Connections is the
// listener's: a connection belongs to its source until a request on it was
// authenticated and allowed, and to that user from then on.
//
// Each limit is one of a user and one of all; 0 is none. The administrators' group
// system:masters has none, so that who mends things gets in. What is refused is
// answered 429 with the reason.
//
// The package must not import kernel/api, the store, the bus or a plugin.
package limits
