// Hollow is a runtime that runs nothing: sandboxes, containers and images are
// entries in memory, so that thousands of nodes with their agents fit on one
// machine for tests of scale. It names itself "hollow" wherever a runtime is
// named (nodeInfo.containerRuntimeVersion of a node starts with hollow://).
//
// # How data passes through
//
// One process serves CRI for all hollow nodes. A call belongs to the node in
// its gRPC metadata pintle-node; without it, to one nameless node. The metadata
// pintle-pod-cidr is the range that the node's sandboxes have their addresses
// of: each call says it, since this process keeps nothing. The node "*" in
// GetContainerEvents asks for the events of all nodes; each then names its node
// in the annotation pintle-node of the sandbox's status. A container runs
// until it is stopped, or as long as its pod's annotation
// hollow.pintle.dev/run-for says, then ends with hollow.pintle.dev/exit-code.
//
// # Caveats
//
// Everything is gone when the process ends; agents then find no sandboxes and
// make them anew. Exec, attach and port-forward answer Unimplemented.
//
// It must not import kernel.
package main
