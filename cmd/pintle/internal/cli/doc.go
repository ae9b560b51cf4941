// Package cli holds what commands of pintle share: the flags that say which kernel, data
// directory or configuration is meant, the forms of output, progress on a terminal, completion
// of a shell, and exit codes.
//
// It may import kernel and sdk. It knows no command: packages of commands import it, and never
// each other.
package cli
