// Package output reads the standard streams of bundles and passes them to a logger, line by
// line. If a line is a structured record, its level and attributes are kept.
//
// The input is untrusted and bounded: bytes per line and per write, attributes per record,
// lines per second and bundle (Budget), bytes per second and process (FloodReader). The
// package drops and counts the excess. Control characters do not reach the log. A record
// cannot forge its origin: those keys belong to the host.
//
// It starts no goroutine. A reader or writer is for one goroutine, a Budget for many. It
// imports nothing of Pintle.
package output
