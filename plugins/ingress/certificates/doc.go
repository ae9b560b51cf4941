// Package certificates has the certificates of hosts, and keeps them current.
//
// # What it owns
//
// The certificates and keys of the Secrets that Ingresses name, in memory, and one of its
// own for connections that name no such host.
//
// # How data passes through
//
// Want says which Secrets are meant. Run reads each of them by its name, at once and then
// in intervals. The plugin may get Secrets, and neither list nor watch them: RBAC has no
// watch of one object that is not a watch of all. A Secret that changed is in use with the
// next connection. One that became faulty leaves the certificate before it in use.
//
// It must not import kernel.
package certificates
