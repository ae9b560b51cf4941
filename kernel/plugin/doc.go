// Package plugin is the plugin host. It finds bundles by their manifests and runs each as a
// WASM module (wazero) or as a process (hashicorp/go-plugin). It keeps them running and
// serves them to the scheduler (Policy), to the node agent (Runtime, Proxy), and as objects
// to the API. It knows no plugin by name, and the kernel's binary contains none.
//
// # How data passes through
//
// The host encodes a Delta of the scheduler once and passes it to every bundle of a profile.
// A question carries a class and node indexes and crosses into a bundle once. For a process,
// one call carries all questions of a decision together with the waiting deltas
// (evaluate.go). A module gets its questions one by one, which costs less than packing. After
// a failure a bundle answers "not available" at once. Meanwhile its supervisor starts it
// again and feeds it the whole state from the ReplicaSource.
//
// Controllers and admission plugins of a module have instances of their own. So a wait for
// the API, or the review of a request, does not delay decisions.
//
// # Promises
//
//   - A call has a deadline. A bundle delays a scheduling cycle at most by missing one.
//   - A whole replica, or a large delta, goes to a guest in parts outside the cycle
//     (feed.go), each with ten times that deadline.
//   - A fresh instance replaces a module that loops, traps, allocates without end or answers
//     out of range. A module has WASI without files and network, and one host function, which
//     the host itself added to check the clock (wasm/meter). Its environment is GOMEMLIMIT.
//   - A process is pinned by digest and uses mutual TLS. It has a clean environment and its
//     own process group, and dies with the kernel.
//   - The host starts, configures and checks a changed configuration before the scheduler
//     switches to it.
//
// # Plans
//
// The plan (plan.go) says what to run: the configuration file, with Plugin objects
// applied on top of it, field by field (fields.go, wishes.go). The host reads the objects
// before the first question, and then watches them. It checks a change when it is written
// (vet.go, schema.go), and swap.go puts it in force. New guests are started, fed and tried
// beside the present ones. The scheduler gets policies for the new plan and switches to them
// between two decisions. The replaced guests end after the last decision that can use them.
// A change of configuration alone goes to the running guest (configure.go), also between two
// decisions. A change that fails changes nothing, and the object shows the error.
//
// # Modules and processes
//
// A module runs in this process by package engine, or in a separate one by package
// wasmworker (process.StartWorker). The same code calls it, because its memory is mapped
// here in both cases.
//
// process/confine.go defines what a process sees and may do. Package confinement starts it in
// this sandbox and stops it before its first instruction; then the host compares the executed
// file with the digest. process/runner.go ends it with everything that it started. limits.go
// sets the limits of a bundle, process/users.go the user of its processes. breaker.go pauses
// calls of a plugin. brief.go decides which questions to a module are not timed. Package
// output decides what the log takes of its output. No process outlives the kernel: go-plugin
// cannot take over (Reattach) a process that it made keys for (AutoMTLS) or whose checksum it
// compared. So the host starts all of them again in order.
//
// # Observation
//
// journal.go keeps the last records of each bundle: its own, and the host's. (output/record.go
// reads its own, so that they keep level and attributes.) logs.go serves them. metrics.go
// reports the host's counters. exposition.go fetches the counters of processes when a client
// requests metrics, and package observe reads them. trace.go makes spans of calls below the
// caller's, if that is sampled. An unobserved call pays for four additions and nothing else.
//
// Modules are compiled when a bundle is installed (wasm.Compile) or at the first start. A
// later start maps the code that package modulecache kept.
//
// # Packages
//
// manifest is the description of a bundle, and guest the interface of a loaded one. process
// and wasm are the two kinds of guests. output reads what they write, seal pins the artefacts
// of a build, and observe makes their calls visible. The host uses the capabilities of a guest
// through the interfaces of guest. Only its start (supervise in unit.go) distinguishes the two
// kinds.
//
// The package imports sdk, the packages below it, kernel/node/cgroup and kernel/api/auth/rbac
// (pure functions). It must not import the scheduler, the store or plugins.
package plugin
