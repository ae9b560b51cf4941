// Package observe makes plugins visible. It owns spans of their calls below the caller's, if
// that is sampled, the trace of a process's call, and the metrics that bundles define
// themselves.
//
// A call that is not observed pays one comparison for its span. The metrics of a bundle are
// untrusted text: ReadExposition bounds them, adds the bundle's name to each series and drops
// invalid ones. The package starts no goroutine and imports nothing of Pintle.
package observe
