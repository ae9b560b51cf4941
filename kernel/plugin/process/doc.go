// Package process runs a bundle, or the worker of a module, as a separate process, with
// hashicorp/go-plugin.
//
// Start starts a bundle's executable. It is pinned by digest, uses mutual TLS, and does not
// get the kernel's environment. Package confinement applies its Constraints before its first
// instruction. It runs in a process group and, where cgroups exist, in its own cgroup. It
// dies with the kernel. Guest calls it by gRPC, and asks the questions of a decision at a
// socket that the process inherits. Answers are untrusted: their size, time and numbers are
// bounded. UserTable gives each bundle a permanent user id.
//
// Goroutines: each process has one that starts it and waits for its end
// (processRunner.Start). Guest.Close ends the process and the goroutine. Two goroutines read
// the output of a worker, and Worker.Close waits for them.
//
// The package may import sdk, kernel/node/cgroup, kernel/secretfile, kernel/reasons and the
// packages below kernel/plugin that guests have in common (guest, manifest, output, observe,
// confinement, description, wasmworker). It must not import kernel/plugin or wasm.
package process
