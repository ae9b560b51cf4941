// Package secretfile reads and writes files that are for their owner alone:
// keys, certificates, and what else decides who may come in.
//
// Promises: a file that is written appears whole or not at all, also after a
// crash. A file that is read was put there by the kernel's user or root, is no
// link, and is closed to others; what others could have chosen is refused. An
// operator's file that says who may come in (ReadGuarded) may be read by others and
// be reached by a link, but not be written by them. Lock
// lets one process at a time change a directory, with the kernel or without.
//
// Data passes through as: path → open without following links → owner and mode →
// bytes. It must not import anything of the kernel and knows no format.
package secretfile
