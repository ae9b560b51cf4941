// Package confinement starts a plugin's process behind walls: namespaces with a
// root file system of its own, limits, a user, no capabilities, a filter of
// system calls. Together with the cgroup that the caller puts it into, they are
// what the process is held to. Rules of Landlock stand beside them, where Linux has it.
//
// The process begins as an executor (see there), which is held by ptrace: before
// its first instruction, for the caller to put it into its cgroup, and again
// before the plugin's first instruction, for the caller to compare what is
// executed with its digest.
//
// It fails closed: where the machine cannot put up a wall, nothing is started, and
// the error says which wall it was and which key of the configuration waives it.
// What is waived and missing is told in Process.Without.
//
// Users keeps which kernel on the machine has given out which user id.
//
// It imports executor and no other package of the kernel.
package confinement
