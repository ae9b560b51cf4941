// Package output reads what bundles write to their standard streams, and hands it to a logger:
// line by line, with level and attributes where a line is a structured record.
//
// What is read is untrusted and bounded: bytes of a line and of a write, attributes of a
// record, lines a second of a bundle (Budget), bytes a second of a process (FloodReader). What
// goes beyond is dropped and counted. Control characters do not reach the log, and no record
// says who wrote it: those keys are the host's.
//
// It starts no goroutine; a reader or writer is for one goroutine, a Budget for many. It
// imports nothing of Pintle.
package output
