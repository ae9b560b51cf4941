// Package candidate implements what an operator does with candidates of a running kernel. It
// installs a candidate beside the version in use, starts it, waits until it runs, and ends it.
// `pintle plugin shadow` is built on it; the kernel's side is kernel/shadow.
//
// It is a client: it writes spec.shadow of Plugin objects and reads through kernel/inspect. It
// must not import kernel/api or the store.
package candidate
