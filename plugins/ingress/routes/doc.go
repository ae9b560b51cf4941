// Package routes says where a request goes: it makes a table of Ingresses, Services and
// EndpointSlices, and finds in it the backend of a host and a path.
//
// # What it owns
//
// The rules of the API about hosts, wildcards, path types and default backends, and what
// the API leaves open: which of several namespaces has a host. A Table does not change
// after Compile, so it is read without locks and replaced as a whole.
//
// Rules are neutral: Ingresses are made into them here, and routes of Gateways in package
// gateway, whose Listeners are attached to the table.
//
// # What it promises
//
// A host belongs to one namespace: the one that has it already, else that of the oldest
// Ingress that names it, in a rule or for a certificate. A wildcard has its subdomains
// with it, unless another namespace had one before. What other namespaces want of it is
// left out and is a Problem. A namespace has as many paths as its budget says. Problems
// name no object of another namespace.
//
// It reads objects and changes none. It knows no client and no socket, and must not
// import kernel.
package routes
