// Package lifecycle runs the postStart and preStop hooks of containers: exec, HTTP, sleep. It runs one hook and
// reports; what follows from a failure is decided by the caller. It must import only kernel/node/container and
// kernel/node/probe of its siblings.
package lifecycle
