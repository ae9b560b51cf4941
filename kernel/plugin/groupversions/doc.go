// Package groupversions describes what an API server plugin serves, according to its
// manifest: the group versions, their places in discovery, and the errors in them.
//
// It imports nothing of the kernel. It must not know which groups are served: that
// changes while a kernel runs, and package apiservices beside it finds out.
package groupversions
