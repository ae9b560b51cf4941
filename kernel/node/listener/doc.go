// Package listener knows the TCP ports of this machine that the kernel and the
// node agent listen on, and says which of them a host port or an external IP
// would take away from everybody.
//
// It holds plain data, starts nothing, and imports nothing of the kernel.
package listener
