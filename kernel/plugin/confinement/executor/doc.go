// Package executor becomes a plugin's process. It is a small program that the kernel starts
// in new namespaces. It builds the walls around itself (root file system, limits, user,
// capabilities, system call filter) and then executes the plugin.
//
// It is a separate program, cmd/pintle-executor, because the kernel's own binary
// takes fifty milliseconds to start. If that program is not beside the kernel,
// the kernel's binary does the same work.
//
// Data passes: the kernel writes a Spec to a pipe. The executor writes a Failure to another
// pipe, or nothing; that pipe closes when the plugin is executed. The executor trusts the
// Spec, because it has no more rights than the process that started it.
//
// It imports only the standard library and golang.org/x/sys, so that it starts at once. It
// must not import any other package of the kernel.
package executor
