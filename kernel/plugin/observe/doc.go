// Package observe makes the calls of plugins visible: spans below the caller's, where that is
// sampled, and the trace that a call of a process belongs to.
//
// None of it is work for a call that nobody looks at: to find that out is one comparison. It
// starts no goroutine and imports nothing of Pintle.
package observe
