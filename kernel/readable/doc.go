// Package readable owns the list of the kinds, beside pods and nodes, whose objects
// scheduling plugins may read. There is no other list of them.
//
// The check of a plugin's description takes the names from it, the scheduler the Go
// types, and the kernel and the simulations the resources that they list and watch.
//
// It imports API types only, and nothing of the kernel.
package readable
