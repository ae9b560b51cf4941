// Package plugin is the plugin host: it finds bundles by their manifests, runs
// each as a WASM module (wazero) or as a process (hashicorp/go-plugin), keeps
// them running and serves them to the scheduler (Policy), to the node agent
// (Runtime, Proxy), and as objects to the API. It knows no plugin by name and
// the kernel's binary contains none.
//
// What passes through: a Delta of the scheduler is encoded once and handed to
// every bundle of a profile; a question carries a class and node indexes and
// crosses into a bundle once. To a process, all questions of a decision go in
// one call together with the deltas that wait (evaluate.go); a module is asked
// one by one, which costs it less than packing. A bundle that failed answers
// "not available" at once while its supervisor starts it again and feeds it in
// full from the ReplicaSource.
//
// Controllers and admission plugins of a module have instances of their own, so
// that who waits for the API, or reviews a request, holds up no decision.
//
// Promises: a call has a deadline, and no bundle holds a scheduling cycle longer
// than by missing one. A whole replica, or a large delta, is handed over in
// parts outside the cycle (feed.go), each with ten times that deadline. A module that loops, traps, allocates
// without end or answers out of range is replaced by a fresh instance; it has
// no host function beyond WASI without files and network, of the environment GOMEMLIMIT, and
// one that the host itself put in to look at the clock (wasm/meter). A process is
// pinned by digest, spoken to over mutual TLS, has a clean environment and its
// own process group, and dies with the kernel. A changed configuration is
// started, configured and checked before the scheduler turns to it.
//
// What shall run is a plan (plan.go): the configuration file, with Plugin objects
// laid over it field by field (fields.go, wishes.go). Objects are read before the
// first question, and followed then. A change is vetted when it is written
// (vet.go, schema.go), and put in force by swap.go: new guests are started, fed
// and tried beside the present ones, policies for the new plan are handed to the
// scheduler, which takes them up between two decisions, and what they replace
// ends when no decision can be with it. A configuration alone reaches the running
// guest (configure.go), between two decisions too. A change that fails changes
// nothing, and the object says so.
//
// A module runs in this process by package engine, or in one apart by package
// wasmworker (process.StartWorker); the same code asks it, since its memory is mapped
// here in both cases.
//
// How a process is held: process/confine.go says what it sees and may, and package
// confinement starts it behind these walls and holds it before its first
// instruction; the file that is executed then is compared with the digest.
// process/runner.go ends it with all that it started. limits.go says what a bundle gets,
// process/users.go whose its processes are, breaker.go when a plugin is not asked,
// brief.go which questions to a module are not timed,
// package output what of its words the log takes. No process outlives the kernel:
// go-plugin cannot take over (Reattach) one that it made keys for (AutoMTLS) or
// whose checksum it compared, so all are started again in order.
//
// What is seen from outside: journal.go keeps the last records of each bundle, its
// own (output/record.go reads them, so that they keep level and attributes) and the
// host's; logs.go hands them out. metrics.go tells what the host counts,
// exposition.go what processes count themselves, asked for when somebody asks and read by
// package observe.
// trace.go makes spans of calls below the caller's, where that is sampled. None of
// it is work for a call that nobody looks at, but for four additions.
//
// Modules are compiled when a bundle is installed (wasm.Compile) or at the first start; a
// later start maps what package modulecache kept.
//
// Its parts are packages: manifest is what a bundle says of itself, guest what a loaded bundle
// is to the host, process and wasm are the two that there are, output reads what they write, seal
// pins the artefacts of a build,
// observe makes their calls visible. What a guest can is asked for by the interfaces of guest;
// only the start of one (supervise in unit.go) knows which of the two it is.
//
// It imports sdk, the packages below it, kernel/node/cgroup and kernel/api/auth/rbac (pure
// functions); it must not import the scheduler, the store or plugins.
package plugin
