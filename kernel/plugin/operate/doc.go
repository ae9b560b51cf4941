// Package operate implements what an operator does with plugins through the API. It lists
// them, changes their Plugin objects, and waits until the plugin host has put a change in
// force or rejected it. `pintle plugin` is built on it. kubectl can do all of it with the
// same objects.
//
// It is a client: it imports API types and client-go, and nothing of the host.
package operate
