// Package answerlimit bounds what the servers that the kernel asks may answer, and how
// much they are asked at a time: webhooks, issuers of tokens.
//
// How data passes through: Wrap goes around a client's transport. A redirect is
// refused, since the request, which may hold a token, would go to somebody else. A
// body that is larger than the bound ends with an error, and is never held whole. Turns
// goes around the clients of servers that are asked before a request has its own turn:
// of those that hang only so many requests wait.
//
// It must not import anything of the kernel.
package answerlimit
