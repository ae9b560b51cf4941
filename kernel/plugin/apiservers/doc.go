// Package apiservers knows the API servers of plugins that run in this kernel: how each
// is reached, and whether it answers.
//
// # What it owns
//
// A transport for each server, which dials the socket of the process that runs now; and
// a check of each group version, which asks for its discovery document as Kubernetes'
// aggregator does: every ten seconds, and sooner while there is no answer.
//
// # What it promises
//
// A server that did not answer its last check has no transport: clients are told so at
// once, rather than each waiting for it. An answer is read up to a bound, and a redirect
// is no answer. Everything that is started ends with Close, which waits for it.
//
// A server that nothing uses may rest (Rest): its process ends, and the next request waits
// for a new one, for a bounded time and with a bounded number of others. Meanwhile it counts
// as available, and the kernel's questions for discovery and OpenAPI are answered as the
// process last did (record.go). They are no use, nor are checks.
//
// Data passes: plugin host → Up, Down, Rest; kernel/api/aggregation → Transport; the plugin
// host's writer of APIServices and Plugin objects → Fault.
//
// It imports kernel/reasons alone of the kernel. It must not import kernel/plugin or
// kernel/api.
package apiservers
