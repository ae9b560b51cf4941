// The controllers bundle: one process that hosts every controller of a
// standard cluster through sdk/controller. Each can be switched off by name
// or replaced by a plugin of the same name; they share the informers of the
// process, which read with the bundle's identity, and each writes with an
// identity of its own, allowed what manifest.yaml says and nothing more.
//
// A controller's package holds its logic, imports sdk and client-go only and
// never the kernel or another controller; what two of them need (taking and
// releasing children by owner reference) stands in ownership.
package main
