// Package process runs a bundle, or the worker of a module, as a process of its own, by
// hashicorp/go-plugin.
//
// Start starts a bundle's executable: pinned by digest, spoken to over mutual TLS, without the
// kernel's environment, held to its Constraints by package confinement before its first
// instruction, in a process group and, where there are some, a cgroup of its own. It dies with
// the kernel. Guest asks it: by gRPC, and the questions of a decision at a socket that the
// process inherits. Answers are untrusted: their size, time and numbers are bounded. UserTable
// gives each bundle a user id for good.
//
// Goroutines: each process has one that starts it and waits for its end (processRunner.Start);
// Guest.Close ends both. The output of a worker is read by two that Worker.Close waits for.
//
// It may import sdk, kernel/node/cgroup, kernel/secretfile, kernel/reasons and the packages
// below kernel/plugin that guests have in common (guest, manifest, output, observe,
// confinement, description, wasmworker). It must not import kernel/plugin or wasm.
package process
