// Bundle metrics-server serves the API of resource metrics, metrics.k8s.io/v1beta1: what
// nodes and pods use of CPU and memory, for `kubectl top` and autoscalers.
//
// # What it owns
//
// The last two measurements of each node and of each container of its pods, in memory.
// It asks the agent of every node for /metrics/resource, through the API server's proxy:
// it has no network of its own. A use of CPU is the difference of two measurements, so
// there is none in the first seconds of a container. Nodes are asked twice within two
// seconds at the start, since the process ends when nobody asks it for two minutes: the
// request that starts it waits for these.
//
// # What it promises
//
// The objects, their tables and selectors, and which measurements count are
// metrics-server's, whose packages serve and keep them. Its scraper is not: that one
// connects to agents itself, and brings all of Prometheus. A node that hangs, or answers
// rubbish or without end, has no metrics; the others have theirs. Up to 3,000 nodes are
// asked at once. An answer is decoded as it comes, a piece at a time, and never held
// whole. Bounds hold for what one node reports: bytes, lines, containers and the length of
// names.
//
// Data passes: agents → decode.go → storage of metrics-server → its API → the kernel.
//
// It imports sdk, and must not import the kernel.
package main
