// Package confinement starts a plugin's process in a sandbox. Its walls are namespaces with
// a separate root file system, limits, a user, no capabilities, and a filter of system calls.
// The cgroup that the caller puts it into completes them. Where Linux has Landlock, its rules
// are added.
//
// The process begins as an executor (see there), which ptrace stops twice. The first stop is
// before its first instruction, so that the caller can put it into its cgroup. The second is
// before the plugin's first instruction, so that the caller can compare the executed file
// with its digest.
//
// It fails closed: if the machine cannot build a wall, the process does not start. The error
// names the wall and the key of the configuration that waives it. Process.Without lists walls
// that are waived and missing.
//
// Users records which kernel on the machine has given out which user id.
//
// It imports executor and no other package of the kernel.
package confinement
