// Package storecmd is the command pintle store with all below it: it parses arguments, calls
// kernel/maintenance, for a running kernel or a directory, and prints what it says.
package storecmd
