// Package simulation owns the question "where would these pods go": the
// scheduler's own cycle, asking plugins of its own, on a picture of a cluster.
// Nothing is written, and nothing that runs is touched.
//
// # How data passes through
//
// A Request names pods and what is to be different from the policy in force:
// another build of a bundle, other weights, plugins left out. Run starts a plugin host
// for the policy (two, when something is different), feeds its guests with the
// picture, lets scheduler.Simulate place the pods one after the other, and ends
// the host. A running kernel answers for its own cluster (Handler); the command
// line answers for pictures in files and backups.
//
// # Promises
//
//   - Both policies see the same picture and the same seed, so that a difference
//     is the policies'. Pods that wait in the picture do not take part.
//   - Guests are instances of their own with the limits of the kernel's; they are
//     gone when Run returns.
//
// It must not import kernel/api or the store.
package simulation
