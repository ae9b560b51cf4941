// Package probe asks containers how they are: startup, liveness and readiness probes with exec, HTTP, TCP and gRPC
// handlers, by the numbers of the pod's spec.
//
// Each probe is one goroutine that the Manager owns; Close ends them all and waits. A result belongs to a container
// id, so that a restarted container starts anew. Nothing is decided here: a result that changes wakes the pod's worker
// through Deps.Changed, and the worker reads results with Result. It must import only kernel/node/container of its
// siblings.
package probe
