// Package rig is what the benchmarks share: programs that are started and stopped, what
// processes weigh and use, and the report of figures with its JSON.
//
// It owns the processes that StartProgram started until Stop returns; they end with this
// process in any case. It imports e2e/cluster alone of this project.
package rig
