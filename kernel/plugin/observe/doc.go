// Package observe makes plugins visible: spans of their calls below the caller's, where that is
// sampled, the trace that a call of a process belongs to, and the metrics that bundles have of
// their own.
//
// A span is no work for a call that nobody looks at: to find that out is one comparison. What a
// bundle counts is untrusted text: ReadExposition bounds it, puts the bundle's name to each
// series and leaves out what cannot be taken. It starts no goroutine and imports nothing of
// Pintle.
package observe
