// Package sysctl sets the kernel's switches that a service proxy needs, and puts back what
// they were when the proxy is cleaned up.
//
// Set remembers the first values in a file of the proxies' state directory before it
// changes one, so that a process that is killed loses nothing. Restore reads them there
// and touches no switch that this package does not know.
//
// It must not import kernel.
package sysctl
