// Package candidate is what an operator does with candidates of a running kernel: install one
// beside the version in use, start it, wait until it runs, and end it. `pintle plugin shadow` is
// made of it; the kernel's side is kernel/shadow.
//
// It is a client: it writes spec.shadow of Plugin objects and asks by kernel/inspect. It must not
// import kernel/api or the store.
package candidate
