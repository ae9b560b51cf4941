// Package groupversions is what an API server plugin serves, as its manifest says: the
// group versions, their places in discovery, and what is wrong with them.
//
// It imports nothing of the kernel. It must not know which groups are served: that
// changes while a kernel runs, and package apiservices beside it finds out.
package groupversions
