// Package executor is what becomes a plugin's process: a small program that the
// kernel starts in new namespaces, that puts up the walls around itself (root
// file system, limits, user, capabilities, system call filter) and then executes
// the plugin.
//
// It is a program of its own, cmd/pintle-executor, because the kernel's own binary
// takes fifty milliseconds to begin. Where that program is not beside the kernel,
// the kernel's binary does the same work.
//
// What passes through: the kernel writes a Spec to a pipe; the executor writes a
// Failure to another, or nothing, which closes when the plugin is executed. It
// trusts the Spec: whoever starts it has only the rights that he had before.
//
// It imports the standard library and golang.org/x/sys alone, so that it begins
// at once; it must not import any other package of the kernel.
package executor
