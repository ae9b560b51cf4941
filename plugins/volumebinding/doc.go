// Volumebinding is the bundle of that part of VolumeBinding which writes:
// VolumeBindingReserve and VolumeBindingPreBind. It runs as a process beside the
// module of plugins/modern, which holds the predicate: a module cannot write to the
// API, and the two share what was reserved in memory.
//
// How data passes through: the predicate finds nodes on which the pod's claims can
// have volumes; VolumeBindingReserve asks the same code again for the one node that
// was chosen, notes the answer, and has the host assume it in the replicas of all
// bundles (sdk.Placement.Assume), so that no other pod is given the volume;
// VolumeBindingPreBind writes it and waits for it. The host learns of what was
// written by its watches, as everybody, and then the assumption is over.
//
// Rejected: patches that the host would carry for a module, as it carries a
// binding's annotations. The kernel would write to whatever a plugin names with its
// own rights, or need a language for what to wait for; a process with an identity
// can do no more than its manifest says, and neither plugin is asked about pods
// without claims.
//
// A call may take a day (timeouts.binding of the manifest): bindTimeoutSeconds, 600
// unless configured, is what ends the wait, as with kube-scheduler.
//
// Caveats: each pod that waits takes one of the scheduler's 64 ways to a binding through
// plugins.
package main
