// Package hollow runs simulated nodes: many real agents of package node in one process,
// over a runtime that runs nothing.
//
// # What it owns
//
// Nodes are the agents and what they share: one source of pods, one watch of nodes, one
// cache of services, one connection to the runtime with one stream of its events, and one
// timetable. It also owns the ConfigMap pintle-hollow-ranges in kube-system, by which each
// node has a range of pod IPs of its own (ranges.go).
//
// # How data passes through
//
// The owner gives clients and sources: those of the kernel's own process, or those of a
// kubeconfig (package process). Each node speaks to the API with its own identity. A bound
// pod comes by the source to the agent of its node, which asks the runtime and writes the
// pod's status.
//
// Simulated nodes share one machine. Their requests wait for one of a few places, those of
// the oldest round of work first (share.go). Beside an API in the same process they begin
// few rounds while others are at work (turns.go).
//
// # Events
//
// A simulated node records no events about its pods, as upstream's kubemark: they would be
// most of what a test of scale writes.
//
// It must not import kernel/api, kernel/store, kernel/scheduler or any plugin.
package hollow
