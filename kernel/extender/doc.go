// Package extender speaks kube-scheduler's extender protocol
// (k8s.io/kube-scheduler/extender/v1): JSON over HTTP to a server that filters
// nodes, scores them, says which pods may be evicted, or binds.
//
// # What it owns
//
// One Extender is one server: its URL, its verbs, its connections. It decides
// nothing; when it is asked is the scheduler's affair (kernel/scheduler/extend.go).
//
// # Promises
//
// A call has a deadline (5 s unless configured), its answer at most 64 MiB, and it
// names nodes that it was asked about and no others: anything else is an error, as
// is an answer that is not 200. Redirects are not followed. Safe for concurrent use.
//
// # Caveats
//
// With enableHTTPS and no authority the server's certificate is not checked, which
// is what kube-scheduler does.
//
// It must not import any other package of the kernel but kernel/reasons.
package extender
