// Package sysctl sets the kernel's switches that service proxies and network policies need,
// and puts back what they were when they are cleaned up.
//
// # What it owns
//
// Switches is a set of switches with the file in which their first values are remembered.
// Settings are those of the service proxies, Bridges those of network policies; each
// remembers its own, in files of their own.
//
// # What it promises
//
// The first values are in the file before one is changed, so that a process that is killed
// loses nothing. Restore reads them there and touches no switch that is not of the set.
//
// It must not import kernel.
package sysctl
