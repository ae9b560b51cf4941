// Package footprint keeps a process of Pintle small while it has nothing to do
// and lets it be fast while it has.
//
// # What it owns
//
// The pace of the garbage collector of the process that calls Keep, and the
// pages of its own program file. A Go process pays for its speed with room: a
// collector that runs rarely needs several times the live heap. A kernel is
// idle most of the time, so the room is given while much is allocated and
// returned to the system some seconds later. A spacious process, which the kernel
// is, has some of it when little is alive. While it starts it has less: what it keeps
// for good would lie scattered between its garbage.
//
// # What it promises
//
// An operator's GOGC or GOMEMLIMIT is respected: with either set, the pace is
// not touched. Pages of the program file are only dropped where nothing was
// written to them; the system reads them again when they are needed.
//
// It must not import anything of Pintle. Keep is for the whole process: call
// it once.
package footprint
