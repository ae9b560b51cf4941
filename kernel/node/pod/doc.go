// Package pod makes the runtime's state of each pod equal to its spec (KLT-1): it admits, mounts, makes the sandbox,
// starts init containers, sidecars and main containers in order, restarts them by policy and back-off, runs hooks,
// stops pods gracefully, and reports a status after each round.
//
// Data: the agent hands in objects with Set and Gone and wakes pods when the runtime, a probe or a referenced object
// changed. Each pod has one worker (kernel/node/worker); a round reads what the runtime has, computes actions (pure,
// actions.go) and carries them out. Nothing is kept that could not be found again from the API and the runtime after
// a restart of the agent, but for back-offs.
//
// A round is interrupted when its pod is deleted or its grace period is cut; a stop is never given up before the
// runtime confirms it. It may import all sibling packages but server and node itself.
package pod
