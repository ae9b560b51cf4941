// Package operate is what an operator does with plugins through the API: look at
// them, change what their Plugin objects ask for, and wait until the plugin host
// has put that in force or said why not. `pintle plugin` is made of it; whatever
// it does, kubectl can do with the same objects.
//
// It is a client: it imports API types and client-go, and nothing of the host.
package operate
