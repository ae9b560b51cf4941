// Package authentication owns the ways to say who one is: the chain of authenticators
// that each request of the API passes.
//
// The ways are upstream's, in upstream's order: the identity of a socket of the kernel,
// request headers of a front proxy, client certificates of the cluster's authority and
// of others, tokens (of a file, of service accounts, bootstrap tokens, JWTs of the
// issuers in an AuthenticationConfiguration, those that a webhook knows), and at last
// nobody (system:anonymous). Who shows something that no way accepts is refused.
//
// How data passes through: a request → the ways one after the other → the guard of
// reserved identities → the group system:authenticated. What the operator configures
// is read at the start, and a file that cannot be used ends it; nothing is asked over
// the network then. Authorities and the AuthenticationConfiguration are read again
// when they change; what cannot be used leaves what was before in force.
//
// Promises: no way but the kernel's own sockets gives an identity of the kernel's
// plugins (system:pintle:). What others answer is bounded in time and size. Files with
// secrets that others may read are warned of, those that others may write are refused.
//
// It must not import the API server, and asks for objects by small interfaces.
package authentication
