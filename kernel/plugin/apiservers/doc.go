// Package apiservers tracks the API servers of plugins that run in this kernel: how to reach
// each of them, and whether it answers.
//
// # What it owns
//
// It owns a transport per server, which dials the socket of the running process. It also
// owns a check per group version, which requests the discovery document as Kubernetes'
// aggregator does: every ten seconds, and sooner while the server does not answer.
//
// # What it promises
//
// A server that did not answer its last check has no transport. Clients get an error at
// once and do not wait for it. Answers are read up to a limit, and a redirect does not count
// as an answer. Close ends everything that was started, and waits for it.
//
// An unused server may rest (Rest): its process ends. The next request waits for a new
// process, for a bounded time and with a bounded number of other requests. Meanwhile the
// server counts as available, and the last answers of the process serve the kernel's requests
// for discovery and OpenAPI (record.go). Those requests and the checks do not count as uses.
//
// Data passes: plugin host → Up, Down, Rest; kernel/api/aggregation → Transport; the plugin
// host's writer of APIServices and Plugin objects → Fault.
//
// Of the kernel it imports only kernel/reasons. It must not import kernel/plugin or
// kernel/api.
package apiservers
